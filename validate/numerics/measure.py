"""Error measures. Pure functions of tensors; what is acceptable is ``acceptance``'s business."""

import torch
from torch import Tensor

MANTISSA = {torch.bfloat16: 8, torch.float16: 11, torch.float32: 24, torch.float8_e4m3fn: 4}
MIN_EXPONENT = {torch.bfloat16: -126, torch.float16: -14, torch.float32: -126, torch.float8_e4m3fn: -6}


def ulp(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Distance of neighbouring numbers of ``dtype`` at the magnitude of each value, float64."""
    exponent = torch.frexp(values.double())[1] - 1
    exponent = torch.where(values == 0, MIN_EXPONENT[dtype], exponent).clamp_min(MIN_EXPONENT[dtype])
    return torch.ldexp(torch.ones_like(values, dtype=torch.float64), exponent + 1 - MANTISSA[dtype])


def as_rows(values: Tensor) -> Tensor:
    """float64 [rows, elements]: everything but the last dimension flattened; a vector is one row."""
    return values.double().reshape(-1, values.shape[-1]) if values.dim() else values.double().reshape(1, 1)


def row_ulps(value: Tensor, reference: Tensor, dtype: torch.dtype) -> Tensor:
    """Errors [rows, elements] in ulps of ``dtype`` at the element or at its row's root mean square, the larger.

    A sum that cancels keeps the absolute error of its terms, so an element far below its row's level is measured against
    that level and not against its own tiny ulp.
    """
    level = reference.square().mean(-1, keepdim=True).sqrt()
    return (value - reference).abs() / ulp(torch.maximum(reference.abs(), level), dtype)


def bits(values: Tensor) -> Tensor:
    """The bit patterns of a tensor, for exact comparison (NaN equals itself, -0 differs from 0)."""
    return values.contiguous().view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[values.element_size()])
