"""The routed experts of one TP rank: MXFP4 weights, MXFP8 activations (OCP Microscaling Formats v1.0), SiTU between
two GEMMs.

    x   = MXFP8(latent)                    blocks of 32 channels
    g,u = x W13^T                          W13 [2 I, 3584]: I gate rows, then I up rows of this rank
    h   = MXFP8(situ(g, u))                blocks of 32 of the I hidden channels
    out = h W2^T                           one row for each of a token's 16 experts; W2 [3584, I]

Rounding points read from vLLM 0.33.0: ``specialized_decode/cutedsl/moe/experts.py`` (``mx_block``, ``plan_chunk``,
``store_hidden``) and ``moe/small_batch/experts.py``. The default path is a compiled kernel
(``FLASHINFER_TRTLLM_MXFP4_MXFP8``): its scales follow ``quantization/utils/mxfp8_utils.py``, and it is granted the
approximate instructions of the other path.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor

from validate.model.call import Call, Expected
from validate.model.microscaling import Packed
from validate.reference.microscaling import mxfp4, mxfp8_ceil, mxfp8_floor
from validate.reference.points import Point, Points, Rounding, sum_error
from validate.reference.situ import approximate_error, situ

LATENT = Point(mxfp8_ceil, mxfp8_ceil, "mxfp8_utils.py; mx_exponent without floor (experts.py mx_block, plan_chunk)")
HIDDEN_TP8 = Point(mxfp8_ceil, mxfp8_floor, "mxfp8_utils.py; mx_exponent(floor=True) (experts.py store_hidden)")
HIDDEN_TP16 = Point(mxfp8_ceil, mxfp8_ceil, "mxfp8_utils.py; mx_exponent without floor (experts.py store_hidden)")
OUTPUT = Point(None, None, "fp32 accumulator, rounded once to the bf16 output")


def reference(call: Call, points: Points) -> dict[str, Expected]:
    """Output ``out`` bf16 [rows * 16, 3584]: row 16 t + s belongs to the s-th expert of token t, before any weighting.

    Inputs: ``latent`` bf16 [rows, 3584], ``ids`` int32 [rows, 16] into the experts of ``w13`` and ``w2`` (``Packed``,
    leading dimension experts), ``beta``, ``linear_beta``, ``live``: rows that belong to a request; those after them
    are padding, may hold NaN, and what comes out of them is free.
    """
    i = call.inputs
    live = i["live"]
    hidden_point = HIDDEN_TP8 if call.shape["tp"] == 8 else HIDDEN_TP16
    x = points(LATENT, i["latent"][:live].double(), 0.0)
    ids = i["ids"][:live].flatten()
    out = torch.empty(ids.numel(), i["latent"].shape[1], dtype=torch.float64)
    rules = {hidden_point.rounds(path) for path in ("default", "specialized", "common")}
    rule = hidden_point.rounds(points.path)
    granted = None if callable(rule) else torch.empty_like(out)
    for expert in ids.unique().tolist():
        pairs = (ids == expert).nonzero()[:, 0]
        rows = x[pairs // i["ids"].shape[1]]
        activated, error = points.fixed(f"hidden {expert}", partial(_hidden, rows, expert, i))
        points(hidden_point, activated, 0.0)  # counted here; what may flip is in the error of the sums
        sums = points.fixed(f"out {expert}", partial(_sums, activated, error, rules, expert, i))
        out[pairs] = points(OUTPUT, *sums[rule])
        if granted is not None:
            # The rule's scale, and what flips under it, scales of whole blocks among them.
            granted[pairs] = (sums[mxfp8_floor][0] - sums[None][0]).abs() + sums[mxfp8_floor][1]
    return {"out": Expected(out, (slice(0, out.shape[0]),), roundings=points.rounded, granted=granted)}


def _sums(
    activated: Tensor, error: Tensor, rules: Iterable[Rounding], expert: int, i: Mapping[str, Any]
) -> dict[Rounding, tuple[Tensor, Tensor]]:
    """FC2 of the hidden values by each rule, and its error: what the sum adds and what flips before it.

    A hidden value within ``error`` of the middle of two E4M3 numbers may fall to either side, and a block's largest
    value may change its scale. The displacements that this can cause are added in quadrature: n of them, whatever
    their signs, come to at most the root of n times that, and the ensemble is given three times its width.
    """
    wide = _wide(i["w2"], expert)
    moved = activated.sign() * error
    found: dict[Rounding, tuple[Tensor, Tensor]] = {}
    for rule in rules:
        hidden, shift = activated, error
        if callable(rule):
            hidden = rule(activated)
            shift = torch.maximum((rule(activated + moved) - hidden).abs(), (rule(activated - moved) - hidden).abs())
        value, norm = _product(hidden, wide)
        found[rule] = value, sum_error(norm, hidden.shape[1]) + _product(shift, wide)[1]
    return found


def _hidden(x: Tensor, expert: int, i: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    """Activated [n, I] of the quantised ``x`` [n, 3584], and what fp32 may have added to it.

    The sums' errors pass through SiTU's slopes; its own follow.
    """
    value, norm = _product(x, _wide(i["w13"], expert))
    gate, up = value.chunk(2, 1)
    gate_error, up_error = sum_error(norm, x.shape[1]).chunk(2, 1)
    beta, linear_beta = i["beta"], i["linear_beta"]
    logistic, bounded = torch.sigmoid(gate), torch.tanh(gate / beta)
    linear = torch.tanh(up / linear_beta)
    slope = logistic * (1 - bounded.square()) + beta * bounded * logistic * (1 - logistic)
    error = (slope * linear_beta * linear).abs() * gate_error
    error += (beta * bounded * logistic * (1 - linear.square())).abs() * up_error
    return situ(gate, up, beta, linear_beta), error + approximate_error(gate, up, beta, linear_beta)


def _product(x: Tensor, wide: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """``x @ weight.T`` in float64 and the 2-norms of its products."""
    weight, squares = wide
    return x @ weight.T, (x.square().float() @ squares.T).double().sqrt()


def _wide(weight: Packed, expert: int) -> tuple[Tensor, Tensor]:
    """One expert's weight in float64, and its squares in fp32."""
    held = _decoded(weight)[expert]
    return held.double(), held.float().square()


@lru_cache(maxsize=2)
def _decoded(weight: Packed) -> Tensor:
    """bf16 [experts, rows, width]: exact, since an E2M1 number has two significant bits."""
    return torch.stack([mxfp4(c, s).bfloat16() for c, s in zip(weight.codes, weight.scales, strict=True)])
