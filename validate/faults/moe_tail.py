"""Faults planted in the MoE tail."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from validate.faults import fault
from validate.model.call import Call
from validate.model.dimensions import K3
from validate.paths.emulated.arithmetic import fma
from validate.paths.emulated.mailbox import arm, poll
from validate.paths.emulated.moe_tail import SpecializedMoeTail

BF16 = torch.bfloat16


@fault("moe_tail.weights-applied-twice", "the experts weigh their rows and the tail does it again")
class WeightsAppliedTwice(SpecializedMoeTail):  # noqa: D101 - each fault is described by its decorator
    def finalize(self, routed: Tensor, weights: Tensor) -> Tensor:
        return super().finalize(routed, (weights.float() ** 2).to(BF16))


@fault("moe_tail.slot-lost", "the last of the 16 routed rows is not added")
class SlotLost(SpecializedMoeTail):  # noqa: D101
    def finalize(self, routed: Tensor, weights: Tensor) -> Tensor:
        return super().finalize(routed[:, :, :-1], weights[:, :-1])


@fault("moe_tail.finalize-in-bf16", "the weighted sum is rounded to bf16 after every slot")
class FinalizeInBf16(SpecializedMoeTail):  # noqa: D101
    def finalize(self, routed: Tensor, weights: Tensor) -> Tensor:
        total = torch.zeros(routed.shape[0], routed.shape[1], routed.shape[3])
        for slot in range(routed.shape[2]):
            total = fma(routed[:, :, slot], weights[:, slot, None], total).to(BF16).float()
        return super().finalize(total[:, :, None].to(BF16), torch.ones_like(weights[:, :1]))


@fault("moe_tail.norm-over-slice", "the latent norm is taken over a rank's slice instead of the whole row")
class NormOverSlice(SpecializedMoeTail):  # noqa: D101
    def normalise(self, latent: Tensor, i: Mapping[str, Any]) -> Tensor:
        ranks = i["routed"].shape[0]
        parts = zip(latent.chunk(ranks, -1), i["norm"].chunk(ranks), strict=True)
        normed = []
        for part, weight in parts:
            mean = part.float().square().mean(-1, keepdim=True)
            normed.append((part.float() * torch.rsqrt(mean + i["eps"]) * weight.float()).to(BF16))
        return torch.cat(normed, -1)


@fault("moe_tail.squares-not-rounded", "the norm's squares stay fp32, unlike the default path's", subtle=True)
class SquaresNotRounded(SpecializedMoeTail):  # noqa: D101
    def square(self, latent: Tensor) -> Tensor:
        return latent.float().square()


@fault("moe_tail.latent-not-rounded", "the norm reads the ranks' fp32 sum: one rounding lost", subtle=True)
class LatentNotRounded(SpecializedMoeTail):  # noqa: D101
    unrounded: Tensor

    def rank_sum(self, received: Tensor) -> Tensor:
        total = super().rank_sum(received)
        if total.shape[-1] == K3.latent:
            self.unrounded = total
        return total

    def normalise(self, latent: Tensor, i: Mapping[str, Any]) -> Tensor:
        inverse = torch.rsqrt(self.square_sum(latent) / latent.shape[-1] + i["eps"])
        return (self.unrounded * inverse[..., None] * i["norm"].float()).to(BF16)


@fault("moe_tail.up-not-rounded", "the projection meets the shared sum in fp32: one rounding lost", subtle=True)
class UpNotRounded(SpecializedMoeTail):  # noqa: D101
    def combine(self, up: Tensor, shared: Tensor) -> Tensor:
        return (up + shared.float()).to(BF16)


@fault("moe_tail.slice-lost", "one thread block's slice of the up projection is missing from the sum")
class SliceLost(SpecializedMoeTail):  # noqa: D101
    def starts(self, width: int) -> list[int]:
        return super().starts(width)[:-1]


@fault("moe_tail.shared-per-rank", "every rank adds the whole shared expert before the reduction")
class SharedPerRank(SpecializedMoeTail):  # noqa: D101
    def combine(self, up: Tensor, shared: Tensor) -> Tensor:
        return super().combine(up, shared * 8)


@fault("moe_tail.rank-lost", "the last rank's latent partial is left out of the sum")
class RankLost(SpecializedMoeTail):  # noqa: D101
    def rank_sum(self, received: Tensor) -> Tensor:
        return super().rank_sum(received[:-1])


@fault("moe_tail.sum-in-bf16", "the ranks' parts are added in bf16 instead of fp32")
class SumInBf16(SpecializedMoeTail):  # noqa: D101
    def rank_sum(self, received: Tensor) -> Tensor:
        return super().rank_sum(received.to(BF16)).float()


@fault("moe_tail.shared-negative-zero", "a shared (+0, -0) pair is pushed as it is: its reader hangs (mutant M1)")
class SharedNegativeZero(SpecializedMoeTail):  # noqa: D101
    def canonical(self, shared: Tensor) -> Tensor:
        return shared


@fault("moe_tail.sentinel-compared-as-float", "flush to zero makes a subnormal payload equal -0: hang (flashinfer 3304)")
class SentinelComparedAsFloat(SpecializedMoeTail):  # noqa: D101
    def payload(self, slots: Tensor) -> Tensor:
        words = slots.view(torch.int32)
        return poll(slots, (words < 0) & (words & 0x7F800000 == 0))


@fault("moe_tail.rearm-omitted", "the layer before's slots keep their data for the layer after next (mutant M2)")
class RearmOmitted(SpecializedMoeTail):  # noqa: D101
    def rearm(self, slots: Tensor, rows: int) -> None:
        pass


@fault("moe_tail.rearm-this-batch-only", "the first layer arms its own rows: those of a larger last step stay", subtle=True)
class RearmThisBatchOnly(SpecializedMoeTail):  # noqa: D101
    def rearm_rows(self, call: Call) -> int:
        return min(call.shape["batch"], call.shape["rearm"])


@fault("moe_tail.rearm-one-row-off", "the row after the last is armed and the first keeps its data", subtle=True)
class RearmOneRowOff(SpecializedMoeTail):  # noqa: D101
    def rearm(self, slots: Tensor, rows: int) -> None:
        arm(slots[1 : rows + 1])


@fault("moe_tail.old-parity-read", "the latent of the layer before is read (mutant M4)")
class OldParityRead(SpecializedMoeTail):  # noqa: D101
    def box(self, current: Tensor, old: Tensor) -> Tensor:
        return old


@fault("moe_tail.one-row-of-neighbour", "the last row's output is its neighbour's", subtle=True)
class OneRowOfNeighbour(SpecializedMoeTail):  # noqa: D101
    def normalise(self, latent: Tensor, i: Mapping[str, Any]) -> Tensor:
        normed = super().normalise(latent, i)
        normed[-1] = normed[max(len(normed) - 2, 0)]
        return normed


@fault("moe_tail.gamma-missing", "the norm's weight is not applied")
class GammaMissing(SpecializedMoeTail):  # noqa: D101
    def normalise(self, latent: Tensor, i: Mapping[str, Any]) -> Tensor:
        return super().normalise(latent, {**i, "norm": torch.ones_like(i["norm"])})


@fault("moe_tail.epsilon-of-another-norm", "1e-6 under the root of the latent norm instead of the layers' 1e-5", subtle=True)
class EpsilonOfAnotherNorm(SpecializedMoeTail):  # noqa: D101
    def normalise(self, latent: Tensor, i: Mapping[str, Any]) -> Tensor:
        return super().normalise(latent, {**i, "eps": 0.1 * i["eps"]})
