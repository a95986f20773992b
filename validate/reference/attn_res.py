"""Attention residuals (AttnRes): every sub-layer reads a softmax mixture of saved blocks and the running prefix.

    p'    = prefix + delta                      delta: output of the sub-layer before; p' = delta where none is added to
    l_s   = (v_s . (w_norm * w_query)) * rsqrt(mean v_s^2 + eps)       sources v_s: the saved blocks and p'
    m     = sum_s softmax(l)_s v_s                          m = p' without saved blocks
    out   = m * rsqrt(mean m^2 + eps_out) * gamma

A block-write layer stores p' as a block; the auxiliary stream is a copy of p'. The final form, after the last layer,
rounds m before the model's own norm.

Rounding points read from vLLM 0.33.0: ``models/kimi_k3/nvidia/ops/attn_res.py`` (Triton, the default path),
``model.py`` and ``ir/ops/layernorm.py``; ``specialized_decode/cutedsl/attn_res/kernel.py`` and
``cutedsl/oproj/consumer.py``.
"""

import torch
from torch import Tensor

from validate.model.call import Call, Expected
from validate.reference.final_norm import DEPTH, NORMED, normalised
from validate.reference.points import U32, Point, Points

BF16 = torch.bfloat16
SMALLEST = 2.0**-149  # of the positive fp32 numbers: what an operation on subnormals rounds to
DELTA = Point(BF16, BF16, "bf16 all-reduce (model.py); round_pair of the mailbox sum (kernel.py)")
PREFIX = Point(BF16, BF16, "updated_prefix.to(bf16) (ops/attn_res.py); bf16x2(lo, hi) (kernel.py)")
MIXTURE = Point(BF16, BF16, "final form: bf16 output, then RMSNorm (model.py); round_pair of the result (kernel.py)")
QUAD = Point(None, torch.float32, "sum of squares formed from three sums, which may cancel (kernel.py, consumer.py)")
FP32 = Point(None, None, "fp32 in both kernels")


def reference(call: Call, points: Points) -> dict[str, Expected]:
    """Outputs ``out`` and ``aux`` (if asked for) [rows, hidden]; live rows of ``prefix``, ``blocks`` and ``mailbox``.

    Inputs: ``delta`` bf16 [rows, hidden], or None where ``mailbox`` [slots, capacity, hidden] holds it in parts that
    are to be added up; ``norm``, ``query``, ``out_norm`` bf16 [hidden]; ``eps``, ``out_eps``. Buffers: ``prefix``
    [capacity, hidden], ``blocks`` [capacity, 8, hidden]. Shape: ``blocks`` of them are saved, ``add`` 1 if the delta
    is added to the prefix, ``write`` the block to store (or -1), ``final`` 1 for the final form. A mailbox that was
    read is armed again.
    """
    i, s = call.inputs, call.shape
    rows = s["batch"]
    parts = None if i["delta"] is not None else call.buffers["mailbox"][:, :rows].double()
    delta = i["delta"].double() if parts is None else _added(parts, points)
    # The sum of two bf16 is exact in fp32, or a bit so far below the other that it cannot move the rounding: no error.
    prefix = points(PREFIX, call.buffers["prefix"][:rows].double() + delta, 0.0) if s["add"] else delta
    terms = points.once("terms", lambda: _terms(call, prefix, points))
    mixture = terms.sum(0)
    if s["final"]:
        mixture = points(MIXTURE, mixture, 0.0)
    mean = mixture.square().mean(-1, keepdim=True)
    gamma = i["out_norm"].double()
    if s["final"]:
        out = normalised(mixture, mean, gamma, i["out_eps"], points)
    else:
        cancelled = s["blocks"] > 0 and QUAD.rounds(points.path) is not None
        mean = points(QUAD, mean, _cancellation(terms) if cancelled else 0.0)
        out = mixture * torch.rsqrt(mean + i["out_eps"]) * gamma
        out = points(FP32, out, U32 * (DEPTH**0.5 / 2 + 6) * out.abs())

    # Only what is summed in fp32 before a bf16 rounding may fall to either side of it: a sum of several parts, the
    # mixture.
    summed = 2 if parts is not None and len(parts) > 1 else 0
    boundaries = (1 + (NORMED.rounds(points.path) is not None)) if s["final"] else 0
    live, exact = (slice(0, rows),), not summed
    found = {
        "out": Expected(out, roundings=summed + boundaries),
        "prefix": Expected(prefix, live, roundings=summed, exact=exact),
    }
    if s["write"] >= 0:
        found["blocks"] = Expected(prefix, (*live, s["write"]), roundings=summed, exact=exact)
    if "aux" in call.empty:
        found["aux"] = Expected(prefix, roundings=summed, exact=exact)
    if parts is not None:
        armed = torch.tensor([0.0, -0.0], dtype=torch.float64).repeat(parts.shape[-1] // 2).expand(parts.shape)
        found["mailbox"] = Expected(armed, (slice(None), *live), exact=True)
    return found


def _added(parts: Tensor, points: Points) -> Tensor:
    """Parts [slots, rows, hidden] added up and rounded; a single one is taken as it is."""
    if len(parts) == 1:
        return parts[0]
    return points(DELTA, parts.sum(0), U32 * (len(parts) - 1) ** 0.5 * parts.norm(dim=0))


def _terms(call: Call, prefix: Tensor, points: Points) -> Tensor:
    """float64 [2, rows, hidden]: what the saved blocks and what the prefix contribute to the mixture."""
    i, rows, saved = call.inputs, len(prefix), call.shape["blocks"]
    if not saved:
        return torch.stack([torch.zeros_like(prefix), prefix])
    weight = i["norm"].double() * i["query"].double()
    blocks = points.fixed("blocks", lambda: call.buffers["blocks"][:rows, :saved].double())
    known = points.fixed("logits", lambda: _logits(blocks, weight, i["eps"]))
    own = _logits(prefix[:, None], weight, i["eps"])
    logit, error = (torch.cat(pair, 1) for pair in zip(known, own, strict=True))
    # The approximate exponentials are good to 2 ulp; the rounding of an argument, times log2(e), becomes a relative
    # error.
    error = error + U32 * (4 + 2 * (logit - logit.amax(1, keepdim=True)).abs())
    share = points(FP32, logit, error).softmax(1)
    each = share[:, :saved, None] * blocks
    mixture = torch.stack([each.sum(1), share[:, saved:] * prefix])
    # The sum of the terms, and of each the roundings of its share; a common factor's error stays. Subnormal terms lose
    # more.
    norm = torch.stack([each.square().sum(1).sqrt(), mixture[1].abs()])
    return points(FP32, mixture, U32 * (saved**0.5 + 3) * norm + SMALLEST * (saved + 2))


def _logits(sources: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Logits [rows, n] of ``sources`` [rows, n, hidden], each with its error.

    The products, bf16 times an exact product of two bf16, are exact in fp32. Over a tree of ``DEPTH`` additions the
    roundings of a sum grow as the 2-norm of its terms; the sum of squares cannot cancel, and the root halves its error.
    """
    squares = sources.square()
    rstd = torch.rsqrt(squares.mean(-1) + eps)
    logit = (sources @ weight) * rstd
    norm = (squares @ weight.square()).sqrt() * rstd
    return logit, U32 * (DEPTH**0.5 * norm + (DEPTH**0.5 / 2 + 4) * logit.abs())


def _cancellation(terms: Tensor) -> Tensor:
    """Error [rows, 1] of the mean square of the sum of the two ``terms``, formed from their squares and their product.

    Each of the three sums has its own relative error. Where the terms cancel, the sums do, but not their errors. This
    is the specialized kernel's own bound; how far it may fall behind the default path is not its business.
    """
    blocks, prefix = terms
    sums = blocks.square().mean(-1) + 2 * (blocks * prefix).mean(-1).abs() + prefix.square().mean(-1)
    return (U32 * (DEPTH**0.5 + 4) * sums)[:, None]
