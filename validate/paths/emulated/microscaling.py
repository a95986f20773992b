"""MXFP4 decoding and MXFP8 quantisation in fp32, by bit patterns, as the kernels do them.

Read from vLLM 0.33.0: specialized_decode/cutedsl/common/primitives.py (``mx_exponent``, ``mx_rescale``, ``pack_fp8``)
and model_executor/layers/quantization/utils/mxfp8_utils.py. fp32 holds the product of an element and its scale exactly.
"""

from collections.abc import Callable

import torch
from torch import Tensor

BLOCK = 32
MANTISSA = 0x7FFFFF
ABOVE_448 = 0x600000  # mantissa bits of 1.75: a larger one takes the next exponent
LEVELS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # magnitudes of E2M1


def decode(codes: Tensor, scales: Tensor) -> Tensor:
    """bf16 [..., width] of MXFP4 ``codes`` [..., width / 2] and ``scales`` [..., width / 32].

    Exact: an E2M1 number has two significant bits, and bf16 the exponents of fp32.
    """
    return (elements(codes) * powers(scales).repeat_interleave(BLOCK, -1)).bfloat16()


def elements(codes: Tensor) -> Tensor:
    """fp32 [..., width]: low nibble first."""
    table = torch.tensor(LEVELS + tuple(-level for level in LEVELS))
    return torch.stack([table[(codes & 15).int()], table[(codes >> 4).int()]], -1).flatten(-2)


def powers(scales: Tensor) -> Tensor:
    """fp32 powers of two of E8M0 bytes 1 to 254: the byte is an fp32 number's exponent field."""
    return (scales.int() << 23).view(torch.float32)


def ceil_exponent(largest: Tensor) -> Tensor:
    """E8M0 byte that leaves no magnitude above 448 (``mx_exponent``, ``floor`` unset)."""
    bits = largest.view(torch.int32)
    exponent = bits >> 23
    found = (exponent - 8 + ((bits & MANTISSA) > ABOVE_448).int()).clamp(0, 254)
    return torch.where(exponent == 0, 0, found)


def floor_exponent(largest: Tensor) -> Tensor:
    """E8M0 byte from the exponent alone (``mx_exponent``, ``floor`` set)."""
    exponent = largest.view(torch.int32) >> 23
    return torch.where(exponent == 255, 254, (exponent - 8).clamp_min(0))


def quantise(values: Tensor, rule: Callable[[Tensor], Tensor]) -> Tensor:
    """fp32 ``values`` [..., width] after MXFP8: scaled by an exact power of two, to E4M3 with saturation, and back."""
    blocks = values.unflatten(-1, (-1, BLOCK))
    byte = rule(blocks.abs().amax(-1, keepdim=True))
    scaled = blocks * ((254 - byte) << 23).view(torch.float32)
    held = scaled.clamp(-448.0, 448.0).to(torch.float8_e4m3fn).float()
    # Byte 0 is 2**-127, which the exponent field alone cannot hold.
    scale = torch.where(byte == 0, 2.0**-127, (byte << 23).view(torch.float32))
    return (held * scale).flatten(-2)
