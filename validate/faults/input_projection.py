"""Faults planted in the attention layers' input projections."""

import torch
from torch import Tensor

from validate.faults import fault
from validate.paths.emulated.input_projection import SpecializedInputProjection

BF16 = torch.bfloat16


@fault("input_projection.last-part-lost", "the last part of K is left out of the cluster's sum (flashinfer 4266)")
class LastPartLost(SpecializedInputProjection):  # noqa: D101 - each fault is described by its decorator
    def reduce(self, parts: Tensor) -> Tensor:
        return super().reduce(parts[: max(1, len(parts) - 1)])


@fault(
    "input_projection.part-late-in-one-tile",
    "the owner sums one output tile before its peers' parts have arrived (flashinfer 4266; mutant M7)",
    subtle=True,
)
class PartLateInOneTile(SpecializedInputProjection):  # noqa: D101
    def reduce(self, parts: Tensor) -> Tensor:
        total = super().reduce(parts)
        total[0, 64:128] = parts[0, 0, 64:128]
        return total


@fault("input_projection.parts-in-bf16", "the parts pass to the owner in bf16: one rounding too many", subtle=True)
class PartsInBf16(SpecializedInputProjection):  # noqa: D101
    def publish(self, part: Tensor) -> Tensor:
        return part.to(BF16).float()


@fault("input_projection.accumulator-not-cleared", "the accumulator starts from the tile before")
class AccumulatorNotCleared(SpecializedInputProjection):  # noqa: D101
    def reduce(self, parts: Tensor) -> Tensor:
        total = super().reduce(parts)
        total[:, 128:256] += total[:, :128]
        return total


@fault("input_projection.last-tile-of-k-lost", "the skinny GEMM prefetches two tiles and counts them out of the loop")
class LastTileOfKLost(SpecializedInputProjection):  # noqa: D101
    def tiles(self, count: int) -> list[int]:
        return super().tiles(count)[:-1]


@fault("input_projection.warp-lost", "one warp's sum is not added up in the skinny GEMM")
class WarpLost(SpecializedInputProjection):  # noqa: D101
    def warps(self, partial: Tensor) -> Tensor:
        return super().warps(partial[..., :-1, :])


@fault("input_projection.second-row-of-first", "the skinny GEMM of two rows reads the first one twice", subtle=True)
class SecondRowOfFirst(SpecializedInputProjection):  # noqa: D101
    def product(self, x: Tensor, weight: Tensor) -> Tensor:
        product = super().product(x, weight)
        return product[:1].expand_as(product) if self.regime == 2 else product


@fault("input_projection.tail-rows-not-written", "rows of the weight past the last whole tile of 128 are not stored")
class TailRowsNotWritten(SpecializedInputProjection):  # noqa: D101
    def store(self, projected: Tensor, product: Tensor) -> None:
        whole = product.shape[1] // 128 * 128
        super().store(projected[:, :whole], product[:, :whole])


@fault("input_projection.pitch-of-the-other-layer", "rows are stored at a pitch that lacks the padding")
class PitchOfTheOtherLayer(SpecializedInputProjection):  # noqa: D101
    def store(self, projected: Tensor, product: Tensor) -> None:
        super().store(projected, product)
        flat = projected.flatten()
        pitch = product.shape[1] - 4
        for row, values in enumerate(product.to(BF16)):
            flat[row * pitch : row * pitch + len(values)] = values
        projected.copy_(flat.view_as(projected))


@fault("input_projection.last-bit-cut-off", "the output is cut off to bf16 instead of rounded", subtle=True)
class LastBitCutOff(SpecializedInputProjection):  # noqa: D101
    def store(self, projected: Tensor, product: Tensor) -> None:
        super().store(projected, (product.view(torch.int32) & -65536).view(torch.float32))


@fault("input_projection.padding-mixed-in", "a tile's padding rows leak into the last live one: NaN", subtle=True)
class PaddingMixedIn(SpecializedInputProjection):  # noqa: D101
    def product(self, x: Tensor, weight: Tensor) -> Tensor:
        product = super().product(x, weight)
        return product + 0.0 * product[-1]
