"""SiTU as the kernels write it, in fp32. All take fp32 ``gate`` and ``up`` of equal shapes and return fp32.

``exact``        accurate tanh and exp: the default path and the shared experts
``half``         sigmoid(g) as (1 + tanh(g / 2)) / 2: the specialized path's dense MLP
``reciprocal``   products with reciprocals instead of divisions: the shared experts of TP16's small batches
``approximate``  tanh.approx, ex2.approx and rcp.approx: the specialized path's routed experts

Read from vLLM 0.33.0: model_executor/layers/activation.py (``SituAndMul``), specialized_decode/cutedsl/moe/shared.py
(``situ``) and specialized_decode/cutedsl/common/primitives.py (``situ``, ``shared_situ``).
"""

import torch
from torch import Tensor

from validate.paths.emulated.arithmetic import LOG2E

TANH_BITS = 11  # bits that tanh.approx.f32 is good to: rounding to so many meets its documented error, 2**-11


def tanh(x: Tensor) -> Tensor:
    """fp32 tanh, rounded once: the library's own last bit differs between machines."""
    return torch.tanh(x.double()).float()


def tanh_approx(x: Tensor) -> Tensor:
    """fp32 tanh with a relative error of up to 2**-11."""
    mantissa, exponent = torch.frexp(torch.tanh(x.double()))
    return torch.ldexp(torch.round(mantissa * 2.0**TANH_BITS), exponent - TANH_BITS).float()


def sigmoid(x: Tensor) -> Tensor:
    """fp32 ``1 / (1 + exp(-x))`` by an accurate exp."""
    return 1 / (1 + torch.exp(-x.double()).float())


def exact(gate: Tensor, up: Tensor, beta: float, linear_beta: float) -> Tensor:
    """Divisions by both bounds, accurate functions."""
    gated = beta * tanh(gate / beta) * sigmoid(gate)
    return gated * (linear_beta * tanh(up / linear_beta))


def half(gate: Tensor, up: Tensor, beta: float, linear_beta: float) -> Tensor:
    """The sigmoid by a second tanh: where the gate is far below zero, ``1 + tanh`` cancels."""
    gated = 0.5 * beta * tanh(gate * _inverse(beta)) * (1 + tanh(gate * 0.5))
    return gated * (linear_beta * tanh(up * _inverse(linear_beta)))


def reciprocal(gate: Tensor, up: Tensor, beta: float, linear_beta: float) -> Tensor:
    """The linear part's argument and the sigmoid's division are formed in float64; an infinite exp gives zero."""
    denominator = 1 + torch.exp(-gate.double()).float()
    logistic = torch.where(denominator.isinf(), 0.0, (1 / denominator.double()).float())
    gated = beta * tanh(gate * _inverse(beta)) * logistic
    return gated * (linear_beta * tanh((up.double() / linear_beta).float()))


def approximate(gate: Tensor, up: Tensor, beta: float, linear_beta: float) -> Tensor:
    """Approximate instructions; both bounds are one factor."""
    exponential = torch.exp2((gate * -LOG2E).double()).float()
    logistic = (1 / (1 + exponential).double()).float()
    gated = beta * linear_beta * tanh_approx(gate * _inverse(beta)) * logistic
    return gated * tanh_approx(up * _inverse(linear_beta))


def _inverse(bound: float) -> float:
    """1 / ``bound`` in fp32."""
    return float(torch.tensor(1 / bound, dtype=torch.float32))
