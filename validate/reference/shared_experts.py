"""Shared experts of a MoE layer, one rank's slice of their fused intermediate width.

    gate, up = W_gate x, W_up x;   h = SiTU(gate, up);   partial = W_down h        the tail adds up the ranks' partials

Rounding points read from vLLM 0.33.0: ``models/kimi_k3/nvidia/model.py`` (``KimiMLP.forward``) and
``specialized_decode/cutedsl/moe/shared.py`` (``SharedUmma.owned_h``), ``moe/front.py`` (``RouteSitu``),
``moe/small_batch``.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from validate.model.call import Call, Expected
from validate.reference.points import Point, Points
from validate.reference.situ import exact_error, situ

BF16 = torch.bfloat16
GATE_UP = Point(BF16, BF16, "bf16 linear layer (model.py); Float32(BFloat16(sums)) (shared.py)")
HIDDEN = Point(BF16, BF16, "SituAndMul returns bf16 (activation.py); BFloat16(situ(...)) (shared.py)")
FP32 = Point(None, None, "fp32 accumulation in both paths")


def reference(call: Call, points: Points) -> dict[str, Expected]:
    """Output ``partial`` [live rows, hidden].

    Inputs: ``x`` [prepared rows, hidden], of which the first ``batch`` are live; ``gate_up`` [2 * width, hidden],
    ``down`` [hidden, width], ``beta``, ``linear_beta``.
    """
    return gated_mlp(call, points, GATE_UP, HIDDEN, exact_error)


def gated_mlp(
    call: Call, points: Points, gate_up: Point, hidden: Point, situ_error: Callable[[Tensor, Tensor, float, float], Tensor]
) -> dict[str, Expected]:
    """The equations with a stage's own points after the first projection and after SiTU, and its own error of SiTU."""
    i, batch = call.inputs, call.shape["batch"]
    product, error = points.matmul(i["x"], i["gate_up"])
    gate, up = points(gate_up, product[:batch], error[:batch]).chunk(2, -1)
    bounds = i["beta"], i["linear_beta"]
    activated = points(hidden, situ(gate, up, *bounds), situ_error(gate, up, *bounds))
    partial = points(FP32, *points.matmul(activated, i["down"]))
    return {"partial": Expected(partial, roundings=points.rounded)}
