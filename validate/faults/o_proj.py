"""Faults planted in the output projection, its all-reduce and the residual."""

import torch
from torch import Tensor

from validate.faults import fault
from validate.model.call import Call
from validate.paths.emulated.arithmetic import chain_sum
from validate.paths.emulated.mailbox import arm, poll
from validate.paths.emulated.o_proj import TWO_SHOT, SpecializedOproj

BF16 = torch.bfloat16


@fault("o_proj.own-rank-first", "each rank starts the sum with its own partial: ranks end up with different bits")
class OwnRankFirst(SpecializedOproj):  # noqa: D101 - each fault is described by its decorator
    def consume(self, slots: Tensor, rank: int) -> Tensor:
        return chain_sum(self.payload(slots).roll(-rank, 0))


@fault("o_proj.rank-lost", "the last rank's slot is left out of the sum (vLLM 35772: buffer sized for fewer ranks)")
class RankLost(SpecializedOproj):  # noqa: D101
    def payload(self, slots: Tensor) -> Tensor:
        values = super().payload(slots)
        return torch.cat([values[:-1], torch.zeros_like(values[-1:])]) if values.dim() == 3 else values


@fault("o_proj.split-k-part-lost", "reduction over K ends one part early (flashinfer 4266)")
class SplitPartLost(SpecializedOproj):  # noqa: D101
    def used_parts(self, parts: int) -> list[int]:
        return super().used_parts(parts)[:-1]


@fault("o_proj.sum-in-bf16", "the ranks' partials are added in bf16 instead of fp32")
class SumInBf16(SpecializedOproj):  # noqa: D101
    def payload(self, slots: Tensor) -> Tensor:
        return super().payload(slots).bfloat16()


@fault("o_proj.negative-zero-published", "-0 not folded: a (+0, -0) pair is the sentinel and its reader hangs (mutant M1)")
class NegativeZeroPublished(SpecializedOproj):  # noqa: D101
    def canonical(self, partial: Tensor) -> Tensor:
        return partial


@fault("o_proj.sentinel-compared-as-float", "flush to zero makes a subnormal payload equal -0: hang (flashinfer 3304)")
class SentinelComparedAsFloat(SpecializedOproj):  # noqa: D101
    def payload(self, slots: Tensor) -> Tensor:
        words = slots.view(torch.int32)
        return poll(slots, (words < 0) & (words & 0x7F800000 == 0))  # negative, exponent 0


@fault("o_proj.rearm-omitted", "the slots keep this layer's data for the next reader (mutant M2)")
class RearmOmitted(SpecializedOproj):  # noqa: D101
    def rearm(self, slots: Tensor, rows: int) -> None:
        pass


@fault("o_proj.rearm-one-row-off", "the row after the last is armed and the first keeps its data (mutant M2)", subtle=True)
class RearmOneRowOff(SpecializedOproj):  # noqa: D101
    def rearm(self, slots: Tensor, rows: int) -> None:
        arm(slots[1 : rows + 1])


@fault(
    "o_proj.two-shot-clears-both-parities",
    "two-shot owners re-arm their slots of the next layer, too, where fast ranks have published already (mutant M3)",
    subtle=True,
)
class TwoShotClearsBothParities(SpecializedOproj):  # noqa: D101
    def all_reduce(self, partial: Tensor, call: Call) -> Tensor:
        total = super().all_reduce(partial, call)
        if call.shape["regime"] >= TWO_SHOT[call.shape["tp"]]:
            arm(call.buffers["mailbox"][1 - call.shape["parity"]])
        return total


@fault("o_proj.other-parity-read", "the consumer polls the half of the mailbox of the next layer (mutant M4)")
class OtherParityRead(SpecializedOproj):  # noqa: D101
    def read_parity(self, parity: int) -> int:
        return 1 - parity


@fault(
    "o_proj.prefix-kept-at-write-layer",
    "the prefix goes on at block-write layers and restarts at the others (mutant M25)",
)
class PrefixKeptAtWriteLayer(SpecializedOproj):  # noqa: D101
    def residual(self, prefix: Tensor, delta: Tensor, write: bool) -> Tensor:
        return super().residual(prefix, delta, not write)


@fault("o_proj.delta-not-rounded", "the sum meets the prefix in fp32: one rounding lost", subtle=True)
class DeltaNotRounded(SpecializedOproj):  # noqa: D101
    def residual(self, prefix: Tensor, delta: Tensor, write: bool) -> Tensor:
        return delta.to(BF16) if write else (prefix.float() + delta).to(BF16)


@fault("o_proj.partial-loses-a-bit", "the published partial is packed with its last bit cut off", subtle=True)
class PartialLosesABit(SpecializedOproj):  # noqa: D101
    def canonical(self, partial: Tensor) -> Tensor:
        return super().canonical((partial.view(torch.int16) & -2).view(BF16))


@fault("o_proj.last-row-of-neighbour", "the last row of the batch reads the slot of the row before it", subtle=True)
class LastRowOfNeighbour(SpecializedOproj):  # noqa: D101
    def all_reduce(self, partial: Tensor, call: Call) -> Tensor:
        total = super().all_reduce(partial, call).clone()
        last = call.shape["batch"] - 1
        total[:, last] = total[:, max(last - 1, 0)]
        return total


@fault("o_proj.stale-prefix-on-one-rank", "one rank adds to the prefix of the layer before (mutant M9)", subtle=True)
class StalePrefixOnOneRank(SpecializedOproj):  # noqa: D101
    def residual(self, prefix: Tensor, delta: Tensor, write: bool) -> Tensor:
        new = super().residual(prefix, delta, write)
        new[-1] = prefix[-1]
        return new


@fault(
    "o_proj.padding-row-mixed-in",
    "a tile's padding rows are added to the last live one: NaN from padding leaks",
    subtle=True,
)
class PaddingMixedIn(SpecializedOproj):  # noqa: D101
    def all_reduce(self, partial: Tensor, call: Call) -> Tensor:
        total = super().all_reduce(partial, call).clone()
        last = call.shape["batch"] - 1
        total[:, last] += 0.0 * total[:, last + 1 :].sum(1)
        return total
