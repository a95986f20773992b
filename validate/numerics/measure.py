"""Error measures. Pure functions of tensors; what is acceptable is ``acceptance``'s business."""

from collections.abc import Iterator

import torch
from torch import Tensor

MANTISSA = {torch.bfloat16: 8, torch.float16: 11, torch.float32: 24, torch.float8_e4m3fn: 4}
EXPONENT_BITS = 0x7FF0000000000000  # of a float64
MIN_EXPONENT = {torch.bfloat16: -126, torch.float16: -14, torch.float32: -126, torch.float8_e4m3fn: -6}


def ulp(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Distance of neighbouring numbers of ``dtype`` at the magnitude of each finite float64 value."""
    # A float64 without its sign and mantissa bits is the power of two below its magnitude (0 for 0 and subnormals).
    power = (values.contiguous().view(torch.int64) & EXPONENT_BITS).view(torch.float64)
    return power.clamp_min(2.0 ** MIN_EXPONENT[dtype]) * 2.0 ** (1 - MANTISSA[dtype])


def as_rows(values: Tensor) -> Tensor:
    """float64 [rows, elements]: everything but the last dimension flattened; a vector is one row."""
    return values.double().reshape(-1, values.shape[-1]) if values.dim() else values.double().reshape(1, 1)


def row_ulp(reference: Tensor, dtype: torch.dtype) -> Tensor:
    """The ulp of ``dtype`` [rows, elements] at the element or at its row's root mean square, the larger.

    A sum that cancels keeps the absolute error of its terms, so an element far below its row's level is measured against
    that level and not against its own tiny ulp.
    """
    level = reference.square().mean(-1, keepdim=True).sqrt()
    return ulp(torch.maximum(reference.abs(), level), dtype)


def bits(values: Tensor) -> Tensor:
    """The bit patterns of a tensor, for exact comparison (NaN equals itself, -0 differs from 0)."""
    return values.contiguous().view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[values.element_size()])


def blocks(rows: int, columns: int, elements: int = 1 << 17) -> Iterator[slice]:
    """Slices of rows with about so many elements: temporaries of 1 MB each stay in the cache."""
    step = max(1, elements // columns)
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def relative(value: Tensor, reference: Tensor) -> float:
    """The 2-norm of the difference over that of the float64 ``reference``, or alone where the reference is zero."""
    value, reference = as_rows(value), as_rows(reference)
    squares = norm = 0.0
    for part in blocks(*reference.shape):
        squares += float((value[part] - reference[part]).square().sum())
        norm += float(reference[part].square().sum())
    return (squares / norm) ** 0.5 if norm > 0 else squares**0.5
