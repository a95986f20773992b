"""Attention residuals: every sub-layer reads a softmax mixture of saved blocks and the running prefix (Kimi K3, AttnRes).

    p'    = prefix + delta                                  delta: output of the sub-layer before; p' = delta where none is added to
    l_s   = (v_s . (w_norm * w_query)) * rsqrt(mean v_s^2 + eps)       sources v_s: the saved blocks and p'
    m     = sum_s softmax(l)_s v_s                          m = p' without saved blocks
    out   = m * rsqrt(mean m^2 + eps_out) * gamma

A block-write layer stores p' as a block; the auxiliary stream is a copy of p'. The final form, after the last layer, rounds m
before the model's own norm.

Rounding points read from vLLM 0.33.0: ``models/kimi_k3/nvidia/ops/attn_res.py`` (Triton, the default path) and
``specialized_decode/cutedsl/attn_res/kernel.py``.
"""

import torch
from torch import Tensor

from validate.model.call import Call, Expected
from validate.reference.points import U32, Point, Points

BF16 = torch.bfloat16
SUBNORMAL = 8 * 2.0**-149  # fp32 products of subnormals round to multiples of this over eight
DELTA = Point(BF16, BF16, "bf16 all-reduce (model.py); round_pair of the mailbox sum (kernel.py)")
PREFIX = Point(BF16, BF16, "updated_prefix.to(bf16) (ops/attn_res.py); bf16x2(lo, hi) (kernel.py)")
MIXTURE = Point(BF16, BF16, "final form: bf16 output, then RMSNorm (model.py); round_pair of the result (kernel.py)")
FP32 = Point(None, None, "fp32 in both kernels")


def reference(call: Call, points: Points) -> dict[str, Expected]:
    """Output ``out`` [rows, hidden] (and ``aux``, if there is one); the live rows of ``prefix``, ``blocks`` and ``mailbox``.

    Inputs: ``delta`` bf16 [rows, hidden], or None where ``mailbox`` [slots, capacity, hidden] holds it in parts that are to be
    added up; ``norm``, ``query``, ``out_norm`` bf16 [hidden]; ``eps``, ``out_eps``. Buffers: ``prefix`` [capacity, hidden],
    ``blocks`` [capacity, 8, hidden]. Shape: ``blocks`` of them are saved, ``add`` 1 if the delta is added to the prefix, ``write``
    the block to store (or -1), ``final`` 1 for the final form.
    """
    i, s = call.inputs, call.shape
    rows, saved = s["batch"], s["blocks"]
    delta = _delta(call, points, rows)
    prefix = call.buffers["prefix"][:rows].double() + delta if s["add"] else delta
    prefix = points(PREFIX, prefix, U32 * prefix.abs() if s["add"] else 0.0)
    mixture = prefix
    if saved:
        sources = torch.cat([call.buffers["blocks"][:rows, :saved].double(), prefix[:, None]], 1)
        mixture = points(FP32, *_mixed(sources, i["norm"].double() * i["query"].double(), i["eps"]))
    if s["final"]:
        mixture = points(MIXTURE, mixture, 0.0)
    rstd = torch.rsqrt(mixture.square().mean(-1, keepdim=True) + i["out_eps"])
    out = mixture * rstd * i["out_norm"].double()
    out = points(FP32, out, out.abs() * _norm_error(call, prefix, mixture) + SUBNORMAL)
    live = (slice(0, rows),)
    found = {
        "out": Expected(out, roundings=points.rounded - 1),  # all but the prefix's own, which is an output itself
        "prefix": Expected(prefix, live),
        "blocks": Expected(prefix[:, None] if s["write"] >= 0 else prefix[:0, None], _block(rows, s["write"])),
    }
    if s["slots"]:
        sentinel = torch.tensor([0.0, -0.0], dtype=torch.float64).repeat(prefix.shape[1] // 2)
        found["mailbox"] = Expected(sentinel.expand(s["slots"], rows, -1), (slice(None), slice(0, rows)), exact=True)
    if "aux" in call.empty:
        found["aux"] = Expected(prefix)
    return found


def _block(rows: int, write: int) -> tuple:
    return (slice(0, rows), slice(write, write + 1)) if write >= 0 else (slice(0, 0), slice(0, 1))


def _delta(call: Call, points: Points, rows: int) -> Tensor:
    if call.inputs["delta"] is not None:
        return call.inputs["delta"].double()
    parts = call.buffers["mailbox"][:, :rows].double()
    if len(parts) == 1:
        return parts[0]
    return points(DELTA, parts.sum(0), U32 * (len(parts) - 1) ** 0.5 * parts.norm(dim=0))


def _mixed(sources: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The mixture of ``sources`` [rows, n, hidden], and the error of forming it in fp32.

    A logit's sum of ``hidden`` products errs by U32 * sqrt(hidden) * norm(products), its root mean square by much less. An error
    d of the logits changes a softmax weight by at most 2 d of itself; exp adds 4 ulp and its argument's rounding.
    """
    hidden = sources.shape[-1]
    products = sources * weight
    rstd = torch.rsqrt(sources.square().mean(-1) + eps)
    logits = products.sum(-1) * rstd
    error = U32 * hidden**0.5 * products.norm(dim=-1) * rstd + 8 * U32 * logits.abs()
    share = logits.softmax(-1)
    relative = 2 * error.max(-1, keepdim=True).values + U32 * (8 + 2 * (logits - logits.max(-1, keepdim=True).values).abs())
    mixture = (share[..., None] * sources).sum(1)
    return mixture, ((share * relative)[..., None] * sources.abs()).sum(1)


def _norm_error(call: Call, prefix: Tensor, mixture: Tensor) -> Tensor:
    """Relative error [rows, 1] of the output's norm and scaling.

    The specialized kernel forms sum m^2 from the squares of its two parts, blocks and prefix, and their product
    (``quad`` in kernel.py): where the parts cancel, their fp32 errors are large beside the sum. Half of it reaches the output.
    """
    hidden = mixture.shape[-1]
    total = mixture.square().sum(-1, keepdim=True)
    if not call.shape["blocks"] or call.shape["final"]:
        return torch.full_like(total, 8 * U32)
    parts = (mixture - prefix).norm(dim=-1, keepdim=True) + prefix.norm(dim=-1, keepdim=True)
    return U32 * (8 + 0.5 * hidden**0.5 * parts.square() / (total + hidden * call.inputs["out_eps"]))
