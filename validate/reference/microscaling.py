"""MXFP4 and MXFP8 in float64 (OCP Microscaling Formats v1.0, sections 5.1 to 5.3 and 6.3).

A block is 32 neighbouring elements with one E8M0 scale, 2**(byte - 127); byte 255 is NaN. E2M1 elements are four bits,
even ones in the low nibble. E4M3 elements have three mantissa bits, exponents from -6, a largest number of 448 and no
infinity.

The standard leaves the scale of a conversion open but for its example, 2**(floor(log2(largest magnitude)) - 8) for
E4M3, under which magnitudes above 1.75 times a power of two saturate (``floor_scale``). vLLM 0.33.0's converters take
the next power of two for those (``ceil_scale``: quantization/utils/mxfp8_utils.py and, on the specialized path,
``mx_exponent`` of cutedsl/common/primitives.py).
"""

from collections.abc import Callable

import torch
from torch import Tensor

BLOCK = 32
E4M3_MAX = 448.0
E4M3_MANTISSA = 3
E4M3_MIN_EXPONENT = -6
E4M3_TOP_EXPONENT = 8  # of 448
SCALE_BIAS = 127


def e2m1(code: int) -> float:
    """Value of a four-bit code: sign, exponent with bias 1, one mantissa bit."""
    sign, exponent, mantissa = -1.0 if code & 8 else 1.0, code >> 1 & 3, code & 1
    magnitude = mantissa * 0.5 if exponent == 0 else (1 + mantissa * 0.5) * 2.0 ** (exponent - 1)
    return sign * magnitude


E2M1 = torch.tensor([e2m1(code) for code in range(16)], dtype=torch.float64)
E2M1_PAIRS = torch.stack([E2M1[torch.arange(256) & 15], E2M1[torch.arange(256) >> 4]], 1)


def e8m0(scales: Tensor) -> Tensor:
    """float64 powers of two of E8M0 bytes."""
    value = torch.ldexp(torch.ones(scales.shape, dtype=torch.float64), scales.int() - SCALE_BIAS)
    return torch.where(scales == 255, torch.nan, value)


def mxfp4(codes: Tensor, scales: Tensor) -> Tensor:
    """float64 [rows, width] of ``codes`` uint8 [rows, width / 2] and ``scales`` uint8 [rows, width / 32]."""
    elements = E2M1_PAIRS[codes.int()].view(codes.shape[0], -1, BLOCK)
    return (elements * e8m0(scales)[..., None]).flatten(1)


def ceil_scale(largest: Tensor) -> Tensor:
    """Exponent of the smallest power of two that brings ``largest`` to 448 or below, from -127 to 127."""
    exponent = _exponent(largest) - E4M3_TOP_EXPONENT
    exponent = exponent + (largest > torch.ldexp(torch.full_like(largest, 1.75), exponent + E4M3_TOP_EXPONENT)).int()
    return _bounded(exponent, largest)


def floor_scale(largest: Tensor) -> Tensor:
    """Exponent of the standard's own example: magnitudes up to twice 256 remain, and those above 448 saturate."""
    return _bounded(_exponent(largest) - E4M3_TOP_EXPONENT, largest)


def mxfp8_ceil(values: Tensor) -> Tensor:
    """float64 ``values`` [..., width] after MXFP8 with ``ceil_scale``."""
    return _mxfp8(values, ceil_scale)


def mxfp8_floor(values: Tensor) -> Tensor:
    """float64 ``values`` [..., width] after MXFP8 with ``floor_scale``."""
    return _mxfp8(values, floor_scale)


def e4m3(values: Tensor) -> Tensor:
    """float64 rounded to E4M3, ties to even, saturating at 448."""
    exponent = _exponent(values).clamp_min(E4M3_MIN_EXPONENT)
    unit = torch.ldexp(torch.ones_like(values), exponent - E4M3_MANTISSA)
    return (torch.round(values / unit) * unit).clamp(-E4M3_MAX, E4M3_MAX)


def _mxfp8(values: Tensor, rule: Callable[[Tensor], Tensor]) -> Tensor:
    blocks = values.unflatten(-1, (-1, BLOCK))
    largest = blocks.abs().amax(-1, keepdim=True)
    scale = torch.ldexp(torch.ones_like(largest), rule(largest))
    return (e4m3(blocks / scale) * scale).flatten(-2)


def _exponent(values: Tensor) -> Tensor:
    """floor(log2(abs(values))) as int32; for 0 a value far below every format."""
    return torch.where(values == 0, -1000, torch.frexp(values)[1] - 1)


def _bounded(exponent: Tensor, largest: Tensor) -> Tensor:
    """Into E8M0's range; fp32 converters take blocks without a normal number as zeros (the smallest scale)."""
    return torch.where(largest < 2.0**-126, -SCALE_BIAS, exponent).clamp(-SCALE_BIAS, SCALE_BIAS)
