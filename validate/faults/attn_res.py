"""Faults planted in attention residuals."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from validate.faults import fault
from validate.model.call import Call
from validate.paths.emulated.attn_res import SpecializedAttnRes
from validate.paths.emulated.mailbox import arm, poll

BF16 = torch.bfloat16
Inputs = Mapping[str, Any]


@fault("attn_res.last-block-missing", "number of saved blocks off by one: shows from layer 12 on (mutant M25)")
class LastBlockMissing(SpecializedAttnRes):  # noqa: D101 - each fault is described by its decorator
    def sources(self, blocks: Tensor, prefix: Tensor, saved: int) -> Tensor:
        return super().sources(blocks, prefix, max(0, saved - 1))


@fault("attn_res.unsaved-block-read", "a block takes part that no layer has saved yet (mutant M25)")
class UnsavedBlockRead(SpecializedAttnRes):  # noqa: D101
    def sources(self, blocks: Tensor, prefix: Tensor, saved: int) -> Tensor:
        return super().sources(blocks, prefix, min(saved + 1, blocks.shape[1]))


@fault("attn_res.block-written-one-off", "block-write layers save into the slot after their own")
class BlockWrittenOneOff(SpecializedAttnRes):  # noqa: D101
    def write(self, blocks: Tensor, index: int, prefix: Tensor) -> None:
        super().write(blocks, (index + 1) % blocks.shape[1], prefix)


@fault("attn_res.block-lacks-delta", "the block is saved before the delta is added to the prefix (mutant M25)")
class BlockLacksDelta(SpecializedAttnRes):  # noqa: D101
    def __call__(self, call: Call) -> None:
        old = call.buffers["prefix"][: call.shape["batch"]].clone()
        super().__call__(call)
        if call.shape["write"] >= 0:
            call.buffers["blocks"][: call.shape["batch"], call.shape["write"]] = old


@fault("attn_res.aux-off-by-one-layer", "auxiliary stream without the last MLP output: acceptance drops (mutant M24)")
class AuxOffByOneLayer(SpecializedAttnRes):  # noqa: D101
    def stream(self, prefix: Tensor, delta: Tensor) -> Tensor:
        return prefix - delta


@fault("attn_res.prefix-not-restarted", "the prefix goes on after the attention of a block-write layer (mutant M25)")
class PrefixNotRestarted(SpecializedAttnRes):  # noqa: D101
    def update(self, prefix: Tensor, delta: Tensor, add: bool) -> Tensor:
        return super().update(prefix, delta, True)


@fault(
    "attn_res.stale-prefix-of-last-row",
    "one row reads the prefix before its writer has finished (mutant M9)",
    subtle=True,
)
class StalePrefixOfLastRow(SpecializedAttnRes):  # noqa: D101
    def sources(self, blocks: Tensor, prefix: Tensor, saved: int) -> Tensor:
        stale = prefix.clone()
        stale[-1] *= 0.5
        return super().sources(blocks, stale, saved)


@fault("attn_res.prefix-not-rounded", "the mixture takes the prefix in fp32, its next reader in bf16", subtle=True)
class PrefixNotRounded(SpecializedAttnRes):  # noqa: D101
    def update(self, prefix: Tensor, delta: Tensor, add: bool) -> Tensor:
        return prefix.float() + delta if add else delta


@fault("attn_res.slot-sum-not-rounded", "the sum of several mailbox slots meets the prefix in fp32", subtle=True)
class SlotSumNotRounded(SpecializedAttnRes):  # noqa: D101
    def gather(self, parts: Tensor) -> Tensor:
        return parts.sum(0)


@fault("attn_res.last-slot-lost", "the mailbox is read one slot short (vLLM 35772)")
class LastSlotLost(SpecializedAttnRes):  # noqa: D101
    def gather(self, parts: Tensor) -> Tensor:
        return super().gather(parts[: max(1, len(parts) - 1)])


@fault("attn_res.rearm-omitted", "the mailbox keeps this layer's rows for the next reader (mutant M2)")
class RearmOmitted(SpecializedAttnRes):  # noqa: D101
    def rearm(self, slots: Tensor, rows: int) -> None:
        pass


@fault("attn_res.rearm-misses-last-row", "one row of the batch is not armed again (mutant M2)", subtle=True)
class RearmMissesLastRow(SpecializedAttnRes):  # noqa: D101
    def rearm(self, slots: Tensor, rows: int) -> None:
        arm(slots[: rows - 1])


@fault("attn_res.rearm-of-the-whole-mailbox", "rows past the batch are armed: a larger batch's data vanish (mutant M3)")
class RearmOfTheWholeMailbox(SpecializedAttnRes):  # noqa: D101
    def rearm(self, slots: Tensor, rows: int) -> None:
        arm(slots)


@fault(
    "attn_res.sentinel-compared-as-float",
    "flush to zero makes a subnormal equal -0: the reader hangs (flashinfer 3304)",
)
class SentinelComparedAsFloat(SpecializedAttnRes):  # noqa: D101
    def read(self, slots: Tensor) -> Tensor:
        words = slots.view(torch.int32)
        return poll(slots, (words < 0) & (words & 0x7F800000 == 0))  # negative, exponent 0


@fault("attn_res.zero-taken-for-unwritten", "the reader waits for any non-zero word: an all-zero row hangs (mutant M1)")
class ZeroTakenForUnwritten(SpecializedAttnRes):  # noqa: D101
    def read(self, slots: Tensor) -> Tensor:
        return poll(slots, slots.view(torch.int32) == 0)


@fault("attn_res.query-without-norm-weight", "logits by the query alone")
class QueryWithoutNormWeight(SpecializedAttnRes):  # noqa: D101
    def combine(self, sources: Tensor, weight: Tensor, i: Inputs) -> Tensor:
        return super().combine(sources, i["query"].float(), i)


@fault("attn_res.cluster-block-lost", "one of the seven thread blocks is left out of the sums (mutant M6)")
class ClusterBlockLost(SpecializedAttnRes):  # noqa: D101
    def over_blocks(self, blocks: Tensor) -> Tensor:
        return super().over_blocks(blocks[..., :-1])


@fault("attn_res.cross-term-once", "the mixture's square has its mixed term once instead of twice")
class CrossTermOnce(SpecializedAttnRes):  # noqa: D101
    def quad(self, alpha: Tensor, beta: Tensor, squares: Tensor, cross: Tensor, own: Tensor) -> Tensor:
        return super().quad(alpha, beta, squares, 0.5 * cross, own)


@fault(
    "attn_res.epsilon-not-scaled",
    "the output norm's epsilon lacks the denominator's square: faint rows only",
    subtle=True,
)
class EpsilonNotScaled(SpecializedAttnRes):  # noqa: D101
    def scaled_eps(self, eps: float, total: Tensor) -> Tensor:
        return torch.full_like(total, eps)


@fault("attn_res.saved-mixture-in-bf16", "the saved blocks' mixture waits for the prefix in bf16", subtle=True)
class SavedMixtureInBf16(SpecializedAttnRes):  # noqa: D101
    def mix_saved(self, blocks: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        maximum, total, mixture = super().mix_saved(blocks, weight, eps)
        return maximum, total, mixture.to(BF16).float()


@fault("attn_res.old-maximum-kept", "the saved blocks are not rescaled when the prefix has the largest logit")
class OldMaximumKept(SpecializedAttnRes):  # noqa: D101
    def join(
        self, maximum: Tensor, total: Tensor, prefix: Tensor, weight: Tensor, own: Tensor, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        alpha, beta, _ = super().join(maximum, total, prefix, weight, own, eps)
        return torch.ones_like(alpha), beta, total + beta


@fault("attn_res.final-not-rounded", "the last mixture reaches the final norm in fp32: one rounding lost", subtle=True)
class FinalNotRounded(SpecializedAttnRes):  # noqa: D101
    def round_final(self, mixture: Tensor) -> Tensor:
        return mixture
