"""Synthetic MXFP4 weights, packed as checkpoints hold them (OCP Microscaling Formats v1.0). No arithmetic: codes only.

A block is 32 neighbouring elements of a row. Its elements are E2M1 codes of four bits (sign, two exponent bits, one
mantissa bit), two a byte with the even element in the low nibble; its scale is one E8M0 byte, a power of two with bias
127.
"""

from dataclasses import dataclass

from torch import Tensor

from validate.model.draws import Draws

BLOCK = 32
SCALE_BIAS = 127


@dataclass(frozen=True, eq=False)
class Packed:
    """``codes`` uint8 [..., width / 2] and ``scales`` uint8 [..., width / 32] of one weight."""

    codes: Tensor
    scales: Tensor


def packed_weight(draws: Draws, rows: int, width: int, exponent: int) -> Packed:
    """[rows, width]: every code is equally likely, the scales are 2**exponent times 1/4 ... 2.

    The codes' root mean square is 2.9. Neighbouring blocks mostly differ in scale, so that a misplaced scale shows.
    """
    codes = draws.integers((rows, width // 2), 0, 256)
    scales = draws.integers((rows, width // BLOCK), SCALE_BIAS + exponent - 2, SCALE_BIAS + exponent + 2)
    return Packed(codes.byte(), scales.byte())
