"""Shared experts of a MoE layer, one rank's slice of their fused intermediate width.

    gate, up = W_gate x, W_up x;   h = SiTU(gate, up);   partial = W_down h        the tail adds up the ranks' partials

Rounding points read from vLLM 0.33.0: ``models/kimi_k3/nvidia/model.py`` (``KimiMLP.forward``) and
``specialized_decode/cutedsl/moe/shared.py`` (``SharedUmma.owned_h``), ``moe/front.py`` (``RouteSitu``),
``moe/small_batch``.
"""

import torch

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
    i, batch = call.inputs, call.shape["batch"]
    product, error = points.matmul(i["x"], i["gate_up"])
    gate, up = points(GATE_UP, product[:batch], error[:batch]).chunk(2, -1)
    bounds = i["beta"], i["linear_beta"]
    hidden = points(HIDDEN, situ(gate, up, *bounds), exact_error(gate, up, *bounds))
    partial = points(FP32, *points.matmul(hidden, i["down"]))
    return {"partial": Expected(partial, roundings=points.rounded)}
