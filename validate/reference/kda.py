"""Kimi Delta Attention, one decode or verify step of one rank (Kimi Linear, arXiv 2510.26692, section 3).

    c_t = SiLU(conv(x_{t-3..t}))                                causal, depthwise, width 4, per channel of q, k, v
    q   = c_q * rsqrt(sum c_q^2 + 1e-6) * D^-1/2                k likewise without the scale
    g   = lower_bound * sigmoid(exp(A_log) * (F_B f_a + dt))    log decay, per head and key channel
    S   = S * exp(g);  S += beta * (v - S k) k^T;  o = S q      S is [value, key], beta = sigmoid(b)
    out = o * rsqrt(mean o^2 + eps) * w * sigmoid(gate)

Rounding points read from vLLM 0.33.0: ``models/kimi_k3/nvidia/kda.py`` with ``ops/third_party/kda/fused_recurrent.py`` (the
default path's Triton pair) and ``specialized_decode/cutedsl/kda/kernel.py``.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from validate.model.call import Call, Expected
from validate.reference.points import U32, Point, Points

BF16 = torch.bfloat16
GATE = Point(BF16, BF16, "F_B is a bf16 linear layer (kda.py); raw_g = BFloat16(value) in gate_warp (kernel.py)")
CONV = Point(BF16, None, "causal_conv1d_update writes its bf16 output (kda.py); accum stays fp32 (kernel.py)")
OUTPUT = Point(BF16, None, "packed decode stores o in bf16 (fused_recurrent.py); result stays fp32 (kernel.py)")
FP32 = Point(None, None, "fp32 in both kernels")


def reference(call: Call, points: Points, *, from_checkpoint: bool = False) -> dict[str, Expected]:
    """Outputs ``out`` [rows, heads * D], and the touched slots of ``conv`` and ``state``.

    Inputs: ``x`` [rows, 3 * H * D] (q, k, v before the convolution), ``gate`` [rows, H * D], ``f_a`` [rows, D],
    ``beta`` [rows, H], ``f_b`` [H * D, D], ``conv_weight`` [3 * H * D, 4], ``a_log`` [H], ``dt_bias`` [H * D], ``norm`` [D],
    ``slots`` [requests, q], ``accepted`` [requests]. Rows of a request are consecutive. The state is read from
    ``slots[b, accepted - 1]`` and token t's is stored in ``slots[b, t]``; a slot of 0 or less is never written, and a
    request whose state would come from one gives zeros. The convolution's taps live in ``slots[b, 0]``, starting at
    column accepted - 1, and become the two columns after that start, then the q inputs.

    ``from_checkpoint``: the kernels may multiply the first state, instead of each token's, by bf16 halves: ``_at_once``.
    """
    i = call.inputs
    requests, q = i["slots"].shape
    heads = i["a_log"].numel()
    dim = i["norm"].numel()
    width = heads * dim
    conv, state = call.buffers["conv"], call.buffers["state"]
    live = [b for b in range(requests) if i["slots"][b, i["accepted"][b] - 1] > 0]

    gate_logit, gate_error = points.matmul(i["f_a"], i["f_b"])
    raw_gate = points(GATE, gate_logit, gate_error)
    log_decay = log_decays(raw_gate, i)
    # exp and sigmoid by approximate instructions are good to 2 ulp each; exp turns the rounding of its argument, times
    # log2(e), into a relative error.
    decay = log_decay.exp()
    decay = points(FP32, decay, decay * U32 * (4 + 2 * log_decay.abs()))
    beta = torch.sigmoid(i["beta"].double())
    gate = torch.sigmoid(i["gate"].double())

    weight = i["conv_weight"].double()
    states: dict[int, Tensor] = {}
    taps: dict[int, Tensor] = {}
    out = torch.zeros(requests * q, heads, dim, dtype=torch.float64)
    for b in live:
        start, home = int(i["accepted"][b]) - 1, int(i["slots"][b, 0])
        rows = slice(b * q, (b + 1) * q)
        window = torch.cat([conv[home, :, start : start + 3].double(), i["x"][rows].double().T], 1)
        taps[home] = window[:, 1 : q + 3]
        terms = window.unfold(1, 4, 1) * weight[:, None]  # [channels, q, 4]
        error = 4 * U32 * terms.square().sum(-1).sqrt().T
        convolved = points(FP32, terms.sum(-1).T, error)
        activated = points(CONV, convolved * torch.sigmoid(convolved), error + 6 * U32 * convolved.abs())
        query, key, value = activated.view(q, 3, heads, dim).unbind(1)
        query = unit(query, i["l2_eps"]) * dim**-0.5
        key = unit(key, i["l2_eps"])
        query = points(FP32, query, 8 * U32 * query.abs())
        key = points(FP32, key, 8 * U32 * key.abs())
        current = state[int(i["slots"][b, start])].double()
        first, passed = current, torch.zeros(heads, 1, dim, dtype=torch.float64)
        for t in range(q):
            row = b * q + t
            current = current * decay[row].view(heads, 1, dim)
            if from_checkpoint:
                passed = passed + log_decay[row].view(heads, 1, dim)
                first = first * decay[row].view(heads, 1, dim)
                current = points(FP32, current, _at_once(first, current, passed))
            current = corrected(current, beta[row], key[t], value[t], points)
            attended = points(OUTPUT, *recall(current, query[t]))
            rstd = torch.rsqrt(attended.square().mean(-1, keepdim=True) + i["norm_eps"])
            out[row] = attended * rstd * i["norm"].double() * gate[row].view(heads, dim)
            if i["slots"][b, t] > 0:
                states[int(i["slots"][b, t])] = current
    out = points(FP32, out.view(-1, width), 8 * U32 * out.view(-1, width).abs())
    slots, homes = torch.tensor(sorted(states)), torch.tensor(sorted(taps))
    return {
        "out": Expected(out, roundings=points.rounded),
        "state": Expected(torch.stack([states[s] for s in slots.tolist()]), (slots,), roundings=points.rounded),
        "conv": Expected(torch.stack([taps[s] for s in homes.tolist()]), (homes, slice(None), slice(0, q + 2))),
    }


def log_decays(raw_gate: Tensor, i: Mapping[str, Any]) -> Tensor:
    """[rows, H * D]: g of the equations, from the projected gate."""
    rate = i["a_log"].double().exp().repeat_interleave(i["norm"].numel())
    return i["lower_bound"] * torch.sigmoid(rate * (raw_gate + i["dt_bias"].double()))


def unit(x: Tensor, eps: float) -> Tensor:
    """Each head's vector over its 2-norm."""
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + eps)


def corrected(decayed: Tensor, beta: Tensor, key: Tensor, value: Tensor, points: Points) -> Tensor:
    """The new state [..., h, v, k] from the decayed one: beta [..., h], key [..., h, k], value [..., h, v]."""
    recalled, error = recall(decayed, key)
    delta = (value - recalled) * beta[..., None]
    delta = points(FP32, delta, error + 4 * U32 * value.abs())
    update = delta[..., None] * key[..., None, :]
    return points(FP32, decayed + update, 2 * U32 * (decayed.abs() + update.abs()))


def _at_once(first: Tensor, current: Tensor, passed: Tensor) -> Tensor:
    """Error, in the decayed state [h, v, k], of a window that is solved from its first state at once.

    The tcgen05 kernels of RecoverSSM (recoverssm/cutedsl/verify.py) multiply ``first``, the state before the window, decayed
    up to this token, by a vector in two bf16 halves: 2**-18 of it is left out; their products are cut off towards zero 16
    times, by up to 2 * U32 each (``Points.matmul``), together 2**-19. A token's share of ``current`` is decayed by
    exp(-L_i) exp(L_t), L being the log decays ``passed`` [h, 1, k] so far: each exponential turns the rounding of its argument
    into a relative error of 2 * U32 * L.
    """
    return first.abs() * (2.0**-18 + 2.0**-19) + 4 * U32 * passed.abs() * current.abs()


def recall(state: Tensor, vector: Tensor) -> tuple[Tensor, Tensor]:
    """``state`` [..., h, v, k] times ``vector`` [..., h, k] over keys, and the error of a kernel's fp32 sum.

    Added to the sum's own roundings are those that the state and the vector bring along: 24 of them, at most, since the
    last point (decay, normalisation and update).
    """
    products = state * vector[..., None, :]
    return products.sum(-1), U32 * (state.shape[-1] ** 0.5 + 24) * products.square().sum(-1).sqrt()
