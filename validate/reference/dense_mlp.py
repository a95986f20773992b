"""Dense MLP of layer 0, one rank's slice of its intermediate width.

    gate, up = W_gate x, W_up x;   h = SiTU(gate, up);   partial = W_down h        an all-reduce of the framework adds
    up the ranks

Rounding points read from vLLM 0.33.0: ``models/kimi_k3/nvidia/model.py`` (``KimiMLP.forward``) and
``specialized_decode/cutedsl/moe/dense.py``, whose SiTU takes the sigmoid as (1 + tanh(g / 2)) / 2.
"""

import torch

from validate.model.call import Call, Expected
from validate.reference.points import Point, Points
from validate.reference.shared_experts import gated_mlp
from validate.reference.situ import half_error

BF16 = torch.bfloat16
GATE_UP = Point(BF16, BF16, "bf16 linear layer (model.py); PreparedProjection into the bf16 rows ``gates`` (dense.py)")
HIDDEN = Point(BF16, BF16, "SituAndMul returns bf16 (activation.py); BFloat16(value) (dense.py)")


def reference(call: Call, points: Points) -> dict[str, Expected]:
    """Output ``partial`` [live rows, hidden]; inputs as in ``reference.shared_experts``, with the dense layer's width.

    The default path's SiTU errs less than the specialized one's; the wider bound serves both, so that they share a
    reference. It differs from the other by 2.5 * 2**-24 of the bounded product, where gates are far below zero.
    """
    return gated_mlp(call, points, GATE_UP, HIDDEN, half_error)
