"""Synthetic tensors with the traits of a trained model that break kernels.

Random normals never saturate a gate, never tie two router scores and have no outlier channels, so a kernel that loses
one of those cases passes on them. Every function takes a ``Draws`` stream and returns the same numbers on every machine.
"""

import torch
from torch import Tensor

from validate.model.draws import Draws

OUTLIER_EVERY = 911  # one outlier channel in so many (a prime: it meets every tile and rank boundary in turn)
OUTLIER_GAIN = 32.0  # hidden-state outliers of trained transformers exceed the other channels tens of times


def activation(draws: Draws, rows: int, width: int, std: float = 1.0) -> Tensor:
    """bf16 [rows, width]: bell-shaped, each row at its own power-of-two scale of 1/2 ... 2, with outlier channels."""
    values = draws.bell((rows, width), std)
    scale = torch.exp2(draws.integers((rows, 1), -1, 2).double())
    values *= scale
    values[:, OUTLIER_EVERY // 2 :: OUTLIER_EVERY] *= OUTLIER_GAIN
    return values.bfloat16()


def linear_weight(draws: Draws, rows: int, width: int, gain: float = 1.0) -> Tensor:
    """bf16 [rows, width]: standard deviation ``gain / sqrt(width)``, so that unit inputs give outputs of about ``gain``."""
    return draws.bell((rows, width), gain * width**-0.5, torch.float32).bfloat16()


def norm_weight(draws: Draws, width: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """[width]: around 1, between 0.5 and 1.5, as trained RMSNorm weights."""
    return (0.5 + draws.uniform((width,))).to(dtype)


def gate_logits(draws: Draws, shape: tuple[int, ...]) -> Tensor:
    """bf16: sigmoid inputs of which most are moderate, one in 16 saturated (about +-24) and one in 16 next to zero."""
    values = draws.bell(shape, 1.5)
    kind = draws.integers(shape, 0, 16)
    values = torch.where(kind == 0, values * 16, values)
    return torch.where(kind == 1, values * 2.0**-10, values).bfloat16()
