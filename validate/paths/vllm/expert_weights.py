"""The routed experts' MXFP4 weights in the layout that vLLM's expert kernels read.

vLLM 0.33.0 makes it once for both paths, for the backend FLASHINFER_TRTLLM_MXFP4_MXFP8: quantization/mxfp4.py ``create_weights``
pads the rank's hidden channels, fused_moe/oracle/mxfp4.py ``convert_weight_to_mxfp4_moe_kernel_format`` reorders the rows by
FlashInfer's index functions (utils.py ``get_shuffle_matrix_a_row_indices`` for an epilogue tile of 128 rows) and tiles the
scales. The specialized kernels take the result as it is (specialized_decode/cutedsl/moe/experts.py, small_batch/experts.py).
"""

import torch
from torch import Tensor

from validate.model.dimensions import K3
from validate.model.microscaling import BLOCK, Packed

CHANNELS = 128  # a rank's hidden channels come in multiples of this: 192 at TP16 become 256
POISON = 0xFF  # as a scale, NaN


def laid_out(w13: Packed, w2: Packed) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """W13 [E, 2 I, 3584] (I gate rows, then I up rows) and W2 [E, 3584, I] as uint8 codes and scales: w13, s13, w2, s2.

    I is padded to whole ``CHANNELS`` with zeros, codes and scales; the shapes are those of the weights, [E, rows, width / 2]
    and [E, rows, width / 32].
    """
    missing = -(w13.codes.shape[1] // 2) % CHANNELS
    return (
        shuffled(paired(w13.codes, missing)),
        tiled(shuffled(paired(w13.scales, missing))),
        shuffled(torch.nn.functional.pad(w2.codes, (0, missing // 2))),
        tiled(shuffled(torch.nn.functional.pad(w2.scales, (0, missing // BLOCK)))),
    )


def paired(both: Tensor, missing: int) -> Tensor:
    """[E, 2 I, n], gate rows before up rows, with ``missing`` rows of zeros after each; then up 0, gate 0, up 1, gate 1, ..."""
    halves = torch.nn.functional.pad(both.unflatten(1, (2, -1)), (0, 0, 0, missing))
    return halves.flip(1).transpose(1, 2).flatten(1, 2)


def shuffled(rows: Tensor) -> Tensor:
    """[E, M, n]: of every 32 rows, row 4 m + k goes to place 8 k + m.

    An epilogue's lane l then has row 4 (l % 8) + l / 8: lanes l and l ^ 8 hold neighbours.
    """
    return rows.unflatten(1, (-1, 8, 4)).transpose(2, 3).flatten(1, 3)


def tiled(scales: Tensor) -> Tensor:
    """[E, M, C]: pieces of 128 rows by 4 columns, 512 bytes each, columns first; in each, row 32 j + i is at 16 i + 4 j."""
    pieces = scales.unflatten(2, (-1, 4)).unflatten(1, (-1, 4, 32))  # [E, M / 128, j, i, C / 4, 4]
    return pieces.permute(0, 1, 4, 3, 2, 5).reshape(scales.shape)


def spread(held: Tensor, places: Tensor) -> Tensor:
    """[896, ...]: what is ``held`` of a few experts in their places, and NaN scales for the others."""
    everywhere = torch.full((K3.experts, *held.shape[1:]), POISON, dtype=held.dtype, device=held.device)
    everywhere[places] = held
    return everywhere


def places(experts: int) -> Tensor:
    """int64 [experts]: in their order, from the first of the 896 to the last."""
    return torch.arange(experts) * (K3.experts - 1) // (experts - 1)
