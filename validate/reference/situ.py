"""SiTU, Kimi K3's gated activation, in float64, and how far each fp32 form of it may lie from that.

    situ(g, u) = beta * tanh(g / beta) * sigmoid(g) * lambda * tanh(u / lambda)        beta 4, lambda 25 in K3

Both factors are bounded: the gate's by beta, the linear one by lambda. Source: ``SituAndMul.forward_native`` (vLLM
0.33.0, model_executor/layers/activation.py). The kernels write it in three forms, which err differently;
``paths/emulated/situ.py`` computes them.
"""

import torch
from torch import Tensor

from validate.reference.points import U32

TANH_APPROX = 2.0**-11  # largest relative error of tanh.approx.f32 (PTX ISA, floating point instructions: tanh)
SMALLEST = 2.0**-126  # fp32's smallest normal number: below it exp overflows, flushes or loses its bits


def situ(gate: Tensor, up: Tensor, beta: float, linear_beta: float) -> Tensor:
    """float64 SiTU of float64 ``gate`` and ``up`` of equal shapes."""
    return beta * torch.tanh(gate / beta) * torch.sigmoid(gate) * linear_beta * torch.tanh(up / linear_beta)


def exact_error(gate: Tensor, up: Tensor, beta: float, linear_beta: float) -> Tensor:
    """Absolute error of the form with accurate tanh and exp in fp32.

    tanhf and expf are good to 2 ulp, 4 U32, each (CUDA Programming Guide, mathematical functions appendix); sums,
    divisions and products round once. tanh passes the rounding of its argument on at most once; the two tanh, exp and
    seven further roundings come to 20 U32. A sigmoid below fp32's normal numbers is lost.
    """
    return 20 * U32 * situ(gate, up, beta, linear_beta).abs() + beta * linear_beta * SMALLEST


def half_error(gate: Tensor, up: Tensor, beta: float, linear_beta: float) -> Tensor:
    """Absolute error of the form that takes sigmoid(g) as (1 + tanh(g / 2)) / 2, with accurate tanh in fp32.

    For negative gates the sum cancels: what tanh lost next to -1 (4 U32) and half an ulp of the sum (U32) stay, halved.
    """
    rest = beta * torch.tanh(gate / beta) * linear_beta * torch.tanh(up / linear_beta)
    return exact_error(gate, up, beta, linear_beta) + 2.5 * U32 * rest.abs()


def approximate_error(gate: Tensor, up: Tensor, beta: float, linear_beta: float) -> Tensor:
    """Absolute error of the form of approximate instructions: two tanh.approx, ex2.approx and rcp.approx.

    ex2 turns the rounding of its argument, g log2(e), into a relative error; ex2 and rcp err by 2 and 1 ulp themselves.
    """
    value = situ(gate, up, beta, linear_beta).abs()
    return value * (2 * TANH_APPROX + U32 * (20 + 2 * gate.abs())) + beta * linear_beta * SMALLEST
