"""Faults planted in the logits and the greedy token."""

import torch
from torch import Tensor

from validate.faults import fault
from validate.paths.emulated.logits import SpecializedLogits

BF16 = torch.bfloat16


@fault("logits.last-of-tied", "the maximum over ranks lets later ranks win ties (mutant M19)", subtle=True)
class LastOfTied(SpecializedLogits):  # noqa: D101 - each fault is described by its decorator
    def first_largest(self, values: Tensor) -> Tensor:
        return values.shape[1] - 1 - super().first_largest(values.flip(1))


@fault("logits.token-before-rounding", "the token is chosen by fp32 logits, which rank bf16's ties", subtle=True)
class TokenBeforeRounding(SpecializedLogits):  # noqa: D101
    def token(self, logits: Tensor, rank: int, tp: int) -> Tensor:
        return self.first_largest(logits)


@fault("logits.token-of-fp16-logits", "the sampler gets fp16 logits, which rank some of bf16's ties", subtle=True)
class TokenOfFp16Logits(SpecializedLogits):  # noqa: D101
    def token(self, logits: Tensor, rank: int, tp: int) -> Tensor:
        return self.first_largest(logits.half())


@fault("logits.last-of-vocabulary-not-searched", "the search for the token ends one entry early", subtle=True)
class LastOfVocabularyNotSearched(SpecializedLogits):  # noqa: D101
    def first_largest(self, values: Tensor) -> Tensor:
        return super().first_largest(values[:, :-1])


@fault("logits.first-of-vocabulary-not-searched", "the search for the token starts at entry 1", subtle=True)
class FirstOfVocabularyNotSearched(SpecializedLogits):  # noqa: D101
    def first_largest(self, values: Tensor) -> Tensor:
        return 1 + super().first_largest(values[:, 1:])


@fault("logits.maximum-starts-at-zero", "padding of zeros behind the vocabulary wins where all logits are negative")
class MaximumStartsAtZero(SpecializedLogits):  # noqa: D101
    def first_largest(self, values: Tensor) -> Tensor:
        return super().first_largest(torch.nn.functional.pad(values, (0, 64)))


@fault("logits.token-local-to-its-rank", "the index of the largest logit lacks its shard's start")
class TokenLocalToItsRank(SpecializedLogits):  # noqa: D101
    def token(self, logits: Tensor, rank: int, tp: int) -> Tensor:
        return super().token(logits, rank, tp) % (logits.shape[1] // tp)


@fault("logits.one-rank-chooses-alone", "one rank takes the largest logit of its own shard", subtle=True)
class OneRankChoosesAlone(SpecializedLogits):  # noqa: D101
    def token(self, logits: Tensor, rank: int, tp: int) -> Tensor:
        if rank != tp - 1:
            return super().token(logits, rank, tp)
        start = logits.shape[1] // tp * rank
        return start + super().token(logits[:, start:], rank, tp)


@fault("logits.shards-out-of-order", "two ranks' shards change places in the gather")
class ShardsOutOfOrder(SpecializedLogits):  # noqa: D101
    def gather(self, shards: list[Tensor], rank: int) -> Tensor:
        return super().gather([shards[1], shards[0], *shards[2:]], rank)


@fault("logits.stale-shard-on-one-rank", "one rank keeps another's shard of the step before", subtle=True)
class StaleShardOnOneRank(SpecializedLogits):  # noqa: D101
    def gather(self, shards: list[Tensor], rank: int) -> Tensor:
        stale = [*shards[:-1], shards[-1].roll(1, 0) * 0.5] if rank == 1 else shards
        return super().gather(stale, rank)


@fault("logits.norm-applied-twice", "compute_logits normalises rows that the last AttnRes has normalised")
class NormAppliedTwice(SpecializedLogits):  # noqa: D101
    def hidden(self, x: Tensor) -> Tensor:
        return torch.nn.functional.rms_norm(x.float(), x.shape[-1:], None, 1e-5).to(BF16)


@fault("logits.head-shifted-on-one-rank", "one rank's shard of the head starts a row late", subtle=True)
class HeadShiftedOnOneRank(SpecializedLogits):  # noqa: D101
    def shard(self, x: Tensor, head: Tensor, rank: int, tp: int) -> Tensor:
        return super().shard(x, head.roll(-1, 0) if rank == tp - 1 else head, rank, tp)


@fault("logits.tail-of-k-lost", "the last 64 of 7168 products are not added")
class TailOfKLost(SpecializedLogits):  # noqa: D101
    def shard(self, x: Tensor, head: Tensor, rank: int, tp: int) -> Tensor:
        return super().shard(torch.cat([x[:, :-64], torch.zeros_like(x[:, -64:])], 1), head, rank, tp)


@fault("logits.halves-in-bf16", "two halves of K are rounded to bf16 before they are added", subtle=True)
class HalvesInBf16(SpecializedLogits):  # noqa: D101
    def shard(self, x: Tensor, head: Tensor, rank: int, tp: int) -> Tensor:
        half = x.shape[1] // 2
        parts = (x[:, :half].float() @ head[:, :half].float().T, x[:, half:].float() @ head[:, half:].float().T)
        return parts[0].to(BF16).float() + parts[1].to(BF16).float()


@fault("logits.token-of-the-row-before", "the last row of the batch gets the token of its neighbour", subtle=True)
class TokenOfTheRowBefore(SpecializedLogits):  # noqa: D101
    def token(self, logits: Tensor, rank: int, tp: int) -> Tensor:
        token = super().token(logits, rank, tp)
        token[-1] = token[max(0, len(token) - 2)]
        return token
