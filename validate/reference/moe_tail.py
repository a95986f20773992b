"""Tail of a latent MoE layer over all tensor-parallel ranks (Kimi K3).

    partial_r = sum_k weight_k row_rk           the 16 routed rows of a token, as rank r's slice of the experts gives
    them latent    = sum_r partial_r normed    = latent * rsqrt(mean latent^2 + eps) * gamma out       = up normed +
    sum_r shared_r      each rank computes hidden / ranks columns and sends them to all

Rounding points read from vLLM 0.33.0: ``models/kimi_k3/nvidia/ops/cute_dsl/latent_moe_tail`` (the default path up to
128 tokens; ``fp32_internal=False`` is set in ``ops/latent_moe_tail.py``) and
``specialized_decode/cutedsl/moe/tail.py``.
"""

import torch
from torch import Tensor

from validate.model.call import Call, Expected
from validate.reference.points import U32, Point, Points, chain_error

BF16 = torch.bfloat16
PARTIAL = Point(BF16, BF16, "finalize_top16_bf16; pack_pair(a0, a1, latent) in MoeTail.front")
LATENT = Point(BF16, BF16, "accum.load().to(BFloat16) before the norm; pack_pair of sum_sources")
SQUARE = Point(BF16, BF16, "norm_input_bf16 * norm_input_bf16; round_pair_square")
NORMED = Point(BF16, BF16, "result of the RMSNorm; scaled words packed for the MMA")
SHARED = Point(BF16, BF16, "reduce-scattered shared shard; Float32(BFloat16(sums))")
UP = Point(BF16, BF16, "gemm_value.to(BFloat16) before the shared shard is added; write_line, rounded")
FP32 = Point(None, None, "fp32 sums in both paths")


def reference(call: Call, points: Points) -> dict[str, Expected]:
    """Output ``out`` [ranks, rows, hidden], equal on all ranks, and the mailboxes.

    Inputs: ``routed`` [ranks, rows, top_k, latent], ``weights`` [rows, top_k] bf16, ``shared`` [ranks, rows, hidden],
    ``norm`` [latent], ``up`` [hidden, latent], ``eps``. Both paths exchange partials through Lamport mailboxes of three
    layers in turn: ``latent`` [ranks, slots, latent] and ``shared_box`` [ranks, slots, hidden] receive this layer's
    partials, which stay there; ``latent_old`` and ``shared_old`` hold the layer's before, and their first ``rearm``
    rows are armed again.
    """
    i, rows = call.inputs, call.shape["batch"]
    partial = points(PARTIAL, *points.fixed("finalized", lambda: _finalized(i["routed"], i["weights"])))
    latent = points(LATENT, partial.sum(0), chain_error(partial))
    # Rounding a square (here of bf16 values, exactly formed) needs no error before it.
    mean = points(SQUARE, latent.square(), 0.0).mean(-1, keepdim=True)
    inverse = torch.rsqrt(mean + i["eps"])
    # Positive terms add up to U32 * sqrt(n) at most, halved by the root; rsqrt.approx is good to 2**-22.9, 2.2 U32 (PTX
    # ISA).
    inverse = points(FP32, inverse, inverse * U32 * (0.5 * latent.shape[-1] ** 0.5 + 4))
    normed = latent * inverse * i["norm"].double()
    normed = points(NORMED, normed, 2 * U32 * normed.abs())
    up = points(UP, *points.matmul(normed, i["up"]))
    shared = i["shared"].double()
    shared = points(SHARED, shared.sum(0), chain_error(shared))
    out = points(FP32, up + shared, U32 * (up + shared).abs())
    used, again = (slice(None), slice(0, rows)), (slice(None), slice(0, call.shape["rearm"]))
    found = {
        "out": Expected(out, replicated=True, roundings=points.rounded),
        "latent": Expected(partial, used, roundings=1),
        "shared_box": Expected(i["shared"].double() + 0.0, used, exact=True),  # -0 + 0 is 0
    }
    for name in ("latent_old", "shared_old"):
        sentinel = torch.zeros(call.buffers[name][again].shape, dtype=torch.float64)
        sentinel[..., 1::2] = -0.0
        found[name] = Expected(sentinel, again, exact=True)
    return found


def _finalized(routed: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """The weighted sums of the routed rows [ranks, rows, latent], and their errors."""
    sums, errors = [], []
    for rows in routed.unbind(0):  # one rank at a time bounds the float64 copies
        terms = rows.double() * weights.double()[..., None]
        sums.append(terms.sum(1))
        errors.append(U32 * terms.shape[1] ** 0.5 * terms.square().sum(1).sqrt())
    return torch.stack(sums), torch.stack(errors)
