"""Faults planted in the routed experts."""

from collections.abc import Callable

import torch
from torch import Tensor

from validate.faults import fault
from validate.model.microscaling import Packed
from validate.paths.emulated import situ
from validate.paths.emulated.arithmetic import chain_sum
from validate.paths.emulated.experts import STAGE, SpecializedExperts
from validate.paths.emulated.microscaling import ABOVE_448, MANTISSA, ceil_exponent, floor_exponent, quantise

Unit = tuple[int, Tensor]


@fault("experts.nibbles-swapped", "MXFP4 elements in the wrong order: the odd one taken from the low nibble")
class NibblesSwapped(SpecializedExperts):  # noqa: D101 - each fault is described by its decorator
    def weight(self, packed: Packed, expert: int) -> Tensor:
        return super().weight(packed, expert).unflatten(1, (-1, 2)).flip(2).flatten(1)


@fault("experts.scale-off-by-one", "E8M0 bias of 128 instead of 127: every weight half its size")
class ScaleOffByOne(SpecializedExperts):  # noqa: D101
    def weight(self, packed: Packed, expert: int) -> Tensor:
        return super().weight(packed, expert) * 0.5


class _OtherScales(SpecializedExperts):
    """Blocks that carry another block's scale."""

    def weight(self, packed: Packed, expert: int) -> Tensor:
        scales = packed.scales[expert]
        ratio = torch.exp2(self.taken(scales).float() - scales.float())
        return (super().weight(packed, expert).unflatten(1, (-1, 32)) * ratio[..., None]).flatten(1)

    def taken(self, scales: Tensor) -> Tensor:
        raise NotImplementedError


@fault("experts.scale-of-neighbour", "scale of the next block along K: an interleaved scale layout misread (gap G2)")
class ScaleOfNeighbour(_OtherScales):  # noqa: D101
    def taken(self, scales: Tensor) -> Tensor:
        return scales.roll(-1, 1)


@fault(
    "experts.last-scale-stale",
    "one scale in 112 of W13 and in 12 of W2 is its neighbour's: a ragged last copy",
    subtle=True,
)
class LastScaleStale(_OtherScales):  # noqa: D101
    def taken(self, scales: Tensor) -> Tensor:
        return torch.cat([scales[:, :-1], scales[:, -2:-1]], 1)


@fault("experts.shard-of-wrong-rank", "W2 columns of another rank's hidden channels")
class ShardOfWrongRank(SpecializedExperts):  # noqa: D101
    def fc2(self, hidden: Tensor, expert: int) -> Tensor:
        return super().fc2(hidden.roll(hidden.shape[1] // 2, 1), expert)


@fault("experts.halves-swapped", "gate and up rows exchanged: w1 and w3 in the other order")
class HalvesSwapped(SpecializedExperts):  # noqa: D101
    def activate(self, gate: Tensor, up: Tensor) -> Tensor:
        return super().activate(up, gate)


@fault("experts.linear-bound-dropped", "the linear part unbounded: SiTU's second tanh missing")
class LinearBoundDropped(SpecializedExperts):  # noqa: D101
    def activate(self, gate: Tensor, up: Tensor) -> Tensor:
        return self.beta * situ.tanh_approx(gate / self.beta) * situ.sigmoid(gate) * up


@fault("experts.gate-bound-dropped", "SiLU of the gate: SiTU's first tanh missing")
class GateBoundDropped(SpecializedExperts):  # noqa: D101
    def activate(self, gate: Tensor, up: Tensor) -> Tensor:
        return gate * situ.sigmoid(gate) * self.linear_beta * situ.tanh_approx(up / self.linear_beta)


@fault("experts.hidden-scale-rule", "hidden scale by the other TP size's rule (mutant M20)", subtle=True)
class HiddenScaleRule(SpecializedExperts):  # noqa: D101
    def quantise_hidden(self, hidden: Tensor) -> Tensor:
        return quantise(hidden, ceil_exponent if self.tp == 8 else floor_exponent)


@fault(
    "experts.hidden-scale-too-small",
    "hidden scale one below the rule's: largest values saturate (mutant M20)",
    subtle=True,
)
class HiddenScaleTooSmall(SpecializedExperts):  # noqa: D101
    def quantise_hidden(self, hidden: Tensor) -> Tensor:
        rule = self.hidden_rule()
        return quantise(hidden, lambda largest: (rule(largest) - 1).clamp_min(0))


@fault(
    "experts.hidden-scale-of-first-warp",
    "a block's scale from half of its values: the warps' maxima not exchanged",
    subtle=True,
)
class HiddenScaleOfFirstWarp(SpecializedExperts):  # noqa: D101
    def quantise_hidden(self, hidden: Tensor) -> Tensor:
        first = hidden.unflatten(1, (-1, 2, 16))[:, :, 0].abs().amax(2)
        rule = self.hidden_rule()
        return quantise(hidden, lambda largest: rule(first[..., None]))


@fault("experts.hidden-not-quantised", "hidden passes as bf16: another engine than the one that was tuned", subtle=True)
class HiddenNotQuantised(SpecializedExperts):  # noqa: D101
    def quantise_hidden(self, hidden: Tensor) -> Tensor:
        return hidden.bfloat16().float()


@fault("experts.latent-not-quantised", "latent passes as bf16: the BF16-activation variant of the kernel", subtle=True)
class LatentNotQuantised(SpecializedExperts):  # noqa: D101
    def quantise_latent(self, latent: Tensor) -> Tensor:
        return latent


@fault(
    "experts.latent-scale-floored",
    "latent scale by the exponent alone: largest values saturate (mutant M20)",
    subtle=True,
)
class LatentScaleFloored(SpecializedExperts):  # noqa: D101
    def quantise_latent(self, latent: Tensor) -> Tensor:
        return quantise(latent, floor_exponent)


@fault("experts.latent-scale-too-large", "latent scale one above the rule's: small values lose a bit (mutant M20)", subtle=True)
class LatentScaleTooLarge(SpecializedExperts):  # noqa: D101
    def quantise_latent(self, latent: Tensor) -> Tensor:
        return quantise(latent, lambda largest: ceil_exponent(largest) + 1)


@fault("experts.hidden-scale-too-large", "hidden scale one above the rule's: small values lose a bit (mutant M20)", subtle=True)
class HiddenScaleTooLarge(SpecializedExperts):  # noqa: D101
    def quantise_hidden(self, hidden: Tensor) -> Tensor:
        rule = self.hidden_rule()
        return quantise(hidden, lambda largest: rule(largest) + 1)


def _flushed(values: Tensor, rule: Callable[[Tensor], Tensor]) -> Tensor:
    """MXFP8 without subnormal E4M3 numbers."""
    largest = values.unflatten(1, (-1, 32)).abs().amax(2)
    smallest = torch.exp2(rule(largest).float() - 127 - 6).repeat_interleave(32, 1)
    return torch.where(values.abs() < smallest, 0.0, quantise(values, rule))


@fault("experts.latent-subnormals-flushed", "subnormal E4M3 numbers of the latent become zero", subtle=True)
class LatentSubnormalsFlushed(SpecializedExperts):  # noqa: D101
    def quantise_latent(self, latent: Tensor) -> Tensor:
        return _flushed(latent, ceil_exponent)


@fault("experts.hidden-subnormals-flushed", "subnormal E4M3 numbers of the hidden values become zero", subtle=True)
class HiddenSubnormalsFlushed(SpecializedExperts):  # noqa: D101
    def quantise_hidden(self, hidden: Tensor) -> Tensor:
        return _flushed(hidden, self.hidden_rule())


@fault(
    "experts.latent-scale-at-the-boundary",
    "latent scale by >= instead of >: a largest value of just 448 units takes the next scale (mutant M20)",
    subtle=True,
)
class LatentScaleAtTheBoundary(SpecializedExperts):  # noqa: D101
    def quantise_latent(self, latent: Tensor) -> Tensor:
        def rule(largest: Tensor) -> Tensor:
            return ceil_exponent(largest) + ((largest.view(torch.int32) & MANTISSA) == ABOVE_448).int()

        return quantise(latent, rule)


@fault("experts.zero-block-divides", "a block of zeros divided by its own largest value: 0 / 0")
class ZeroBlockDivides(SpecializedExperts):  # noqa: D101
    def quantise_latent(self, latent: Tensor) -> Tensor:
        blocks = latent.unflatten(1, (-1, 32))
        empty = (blocks.abs().amax(2, keepdim=True) == 0).expand_as(blocks)
        return torch.where(empty.flatten(1), torch.nan, super().quantise_latent(latent))


@fault("experts.bf16-partials", "FC1's partial sums exchanged in bf16 between thread blocks", subtle=True)
class Bf16Partials(SpecializedExperts):  # noqa: D101
    def accumulate(self, x: Tensor, weight: Tensor) -> Tensor:
        return super().accumulate(x, weight).bfloat16().float()


@fault("experts.bf16-accumulation", "sums kept in bf16 from stage to stage", subtle=True)
class Bf16Accumulation(SpecializedExperts):  # noqa: D101
    def accumulate(self, x: Tensor, weight: Tensor) -> Tensor:
        total = torch.zeros(x.shape[0], weight.shape[0])
        for start in range(0, x.shape[1], STAGE):
            total = (total + x[:, start : start + STAGE] @ weight[:, start : start + STAGE].T).bfloat16().float()
        return total


@fault(
    "experts.partial-sum-lost",
    "an FC1 tile without the part of the last thread block that shares it (mutant M6)",
    subtle=True,
)
class PartialSumLost(SpecializedExperts):  # noqa: D101
    def tile(self, x: Tensor, weight: Tensor, bounds: list[int]) -> Tensor:
        last = bounds[-1] * STAGE if bounds else x.shape[1]
        return super().tile(x[:, :last], weight[:, :last], bounds[:-1])


@fault(
    "experts.row-of-other-expert",
    "one row in 64 is computed by another expert: a slot of the unit table overwritten",
    subtle=True,
)
class RowOfOtherExpert(SpecializedExperts):  # noqa: D101
    def units(self, ids: Tensor) -> list[Unit]:
        changed = ids.clone()
        changed[63 % ids.shape[0], -1] = ids[63 % ids.shape[0], 0]
        return super().units(changed)


@fault(
    "experts.ninth-token-dropped",
    "tokens past the eighth of an expert read the first unit's rows (mutant of the grouping)",
)
class NinthTokenDropped(SpecializedExperts):  # noqa: D101
    def tokens(self, pairs: Tensor, top_k: int) -> Tensor:
        rows = super().tokens(pairs, top_k)
        if self.regime > 8 and len(rows) < 8 and int(rows[0]) > 0:
            return (rows - 1).clamp_min(0)
        return rows


@fault("experts.padding-of-garbage", "the hidden channels that pad 192 to 256 hold what was there before, and are used")
class PaddingOfGarbage(SpecializedExperts):  # noqa: D101
    def fc2(self, hidden: Tensor, expert: int) -> Tensor:
        value = super().fc2(hidden, expert)
        width = -hidden.shape[1] % 128
        if width:
            value = chain_sum(torch.stack([value, hidden[:, :width].flip(1) @ self.weight(self.w2, expert)[:, :width].T]))
        return value


@fault(
    "experts.nan-of-padding-leaks",
    "a padded row's NaN enters the largest value of its neighbours' blocks (ROCm/ATOM 1719)",
)
class NanOfPaddingLeaks(SpecializedExperts):  # noqa: D101
    def quantise_latent(self, latent: Tensor) -> Tensor:
        x = super().quantise_latent(latent)
        spoiled = x.isnan().any(1)
        x[:-1][spoiled[1:]] = float("nan")
        return x


@fault("experts.slot-order-lost", "rows stored in the order of the expert ids instead of the token's slots")
class SlotOrderLost(SpecializedExperts):  # noqa: D101
    def units(self, ids: Tensor) -> list[Unit]:
        return super().units(ids.sort(1).values)


@fault(
    "experts.hidden-image-stale",
    "the last unit reads the hidden image of the one before: re-arming lost (mutant M2)",
    subtle=True,
)
class HiddenImageStale(SpecializedExperts):  # noqa: D101
    def quantise_hidden(self, hidden: Tensor) -> Tensor:
        before, self.before = getattr(self, "before", hidden), super().quantise_hidden(hidden)
        stale = before.shape == hidden.shape and self.before.shape[0] == 1
        return before if stale else self.before
