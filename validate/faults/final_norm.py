"""Faults planted in the model's final norm."""

import torch
from torch import Tensor

from validate.faults import fault
from validate.paths.emulated.final_norm import SpecializedFinalNorm

BF16 = torch.bfloat16


@fault("final_norm.epsilon-missing", "no epsilon under the root: shows on faint rows", subtle=True)
class EpsilonMissing(SpecializedFinalNorm):  # noqa: D101 - each fault is described by its decorator
    def scale(self, x: Tensor, eps: float) -> Tensor:
        return super().scale(x, 0.0)


@fault(
    "final_norm.normalised-row-rounded",
    "the row passes through bf16 before its weight, as on the default path",
    subtle=True,
)
class NormalisedRowRounded(SpecializedFinalNorm):  # noqa: D101
    def weighted(self, normed: Tensor, weight: Tensor) -> Tensor:
        return super().weighted(normed.to(BF16).float(), weight)


@fault("final_norm.cluster-block-lost", "one of the seven thread blocks is left out of the sum of squares (mutant M6)")
class ClusterBlockLost(SpecializedFinalNorm):  # noqa: D101
    def squares(self, x: Tensor) -> Tensor:
        return super().squares(torch.cat([x[:, :-1024], torch.zeros_like(x[:, -1024:])], 1))


@fault("final_norm.mean-over-padded-width", "the sum is divided by the next power of two, 8192")
class MeanOverPaddedWidth(SpecializedFinalNorm):  # noqa: D101
    def squares(self, x: Tensor) -> Tensor:
        return super().squares(x) * (x.shape[-1] / 8192)


@fault("final_norm.weight-plus-one", "the weight is taken for an offset from 1, as in Gemma's norm")
class WeightPlusOne(SpecializedFinalNorm):  # noqa: D101
    def weighted(self, normed: Tensor, weight: Tensor) -> Tensor:
        return super().weighted(normed, 1 + weight)


@fault("final_norm.last-vector-unweighted", "the last thread's eight columns miss their weight", subtle=True)
class LastVectorUnweighted(SpecializedFinalNorm):  # noqa: D101
    def weighted(self, normed: Tensor, weight: Tensor) -> Tensor:
        return super().weighted(normed, torch.cat([weight[:-8], torch.ones(8)]))


@fault("final_norm.scale-of-neighbour", "the last row is divided by the norm of the row before it", subtle=True)
class ScaleOfNeighbour(SpecializedFinalNorm):  # noqa: D101
    def scale(self, x: Tensor, eps: float) -> Tensor:
        scale = super().scale(x, eps).clone()
        scale[-1] = scale[max(0, len(scale) - 2)]
        return scale


@fault("final_norm.squares-in-bf16", "the squares are rounded to bf16 before they are added")
class SquaresInBf16(SpecializedFinalNorm):  # noqa: D101
    def squares(self, x: Tensor) -> Tensor:
        return super().squares((x * x).to(BF16).float().sqrt())


@fault("final_norm.squares-overflow", "squares in half precision: large rows turn to zero")
class SquaresOverflow(SpecializedFinalNorm):  # noqa: D101
    def squares(self, x: Tensor) -> Tensor:
        return super().squares((x * x).half().float().sqrt())
