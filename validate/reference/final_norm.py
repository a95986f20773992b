"""The model's final norm (RMSNorm; Zhang and Sennrich, arXiv 1910.07467).

    out = x * rsqrt(mean x^2 + eps) * w

The default path applies it in ``compute_logits``, the specialized path at the end of its last AttnRes. Rounding points
read from vLLM 0.33.0: ``ir/ops/layernorm.py`` and ``specialized_decode/cutedsl/attn_res/kernel.py``.
"""

import torch
from torch import Tensor

from validate.model.call import Call, Expected
from validate.reference.points import U32, Point, Points

BF16 = torch.bfloat16
# Additions one after the other in a row sum: a thread's columns in order, then butterflies over lanes, warps and
# blocks. At most 71 (Triton, four warps: 64 + 5 + 2); a cluster of seven blocks has 8 + 5 + 2 + 4.
DEPTH = 72
NORMED = Point(BF16, None, "x.to(weight.dtype) * weight (layernorm.py); result * scale * gamma stays fp32 (kernel.py)")
FP32 = Point(None, None, "fp32 in both kernels")


def reference(call: Call, points: Points) -> dict[str, Expected]:
    """Output ``out`` bf16 [rows, hidden]. Inputs: ``x`` bf16 [rows, hidden], ``weight`` bf16 [hidden], ``eps``."""
    i = call.inputs
    x = i["x"].double()
    out = normalised(x, x.square().mean(-1, keepdim=True), i["weight"].double(), i["eps"], points)
    return {"out": Expected(out, roundings=points.rounded)}


def normalised(x: Tensor, mean_square: Tensor, weight: Tensor, eps: float, points: Points) -> Tensor:
    """``x`` of unit root mean square, times the weight.

    A sum of squares has no cancellation: each of ``DEPTH`` roundings adds at most U32 of the sum, and they add in
    quadrature. The root halves that; the approximate rsqrt is good to 2 ulp.
    """
    normed = x * torch.rsqrt(mean_square + eps)
    normed = points(NORMED, normed, U32 * (DEPTH**0.5 / 2 + 4) * normed.abs())
    out = normed * weight
    return points(FP32, out, 2 * U32 * out.abs())
