"""Faults planted in the token embedding."""

import torch
from torch import Tensor

from validate.faults import fault
from validate.paths.emulated.embedding import SpecializedEmbedding


@fault("embedding.first-id-of-shard-lost", "the shard's first id is left to the rank before", subtle=True)
class FirstIdOfShardLost(SpecializedEmbedding):  # noqa: D101 - each fault is described by its decorator
    def owns(self, ids: Tensor, row: Tensor, rows: int, vocab: int) -> Tensor:
        return super().owns(ids, row, rows, vocab) & (row > 0)


@fault("embedding.last-id-of-shard-lost", "the shard ends one id early", subtle=True)
class LastIdOfShardLost(SpecializedEmbedding):  # noqa: D101
    def owns(self, ids: Tensor, row: Tensor, rows: int, vocab: int) -> Tensor:
        return super().owns(ids, row, rows, vocab) & (row < rows - 1)


@fault("embedding.outside-wraps-around", "ids outside the vocabulary are taken modulo its size")
class OutsideWrapsAround(SpecializedEmbedding):  # noqa: D101
    def gather(self, ids: Tensor, shard: Tensor, rank: int, vocab: int, out: Tensor) -> None:
        super().gather(ids.long() % vocab, shard, rank, vocab, out)


@fault("embedding.outside-clamped", "ids outside the vocabulary are clamped to its first or last one")
class OutsideClamped(SpecializedEmbedding):  # noqa: D101
    def gather(self, ids: Tensor, shard: Tensor, rank: int, vocab: int, out: Tensor) -> None:
        super().gather(ids.long().clamp(0, vocab - 1), shard, rank, vocab, out)


@fault("embedding.minus-one-accepted", "the padding id -1 passes for the first one", subtle=True)
class MinusOneAccepted(SpecializedEmbedding):  # noqa: D101
    def gather(self, ids: Tensor, shard: Tensor, rank: int, vocab: int, out: Tensor) -> None:
        super().gather(torch.where(ids == -1, 0, ids), shard, rank, vocab, out)


@fault("embedding.others-not-zeroed", "rows of other ranks' ids keep what the buffer held")
class OthersNotZeroed(SpecializedEmbedding):  # noqa: D101
    def gather(self, ids: Tensor, shard: Tensor, rank: int, vocab: int, out: Tensor) -> None:
        out[:] = 1.0
        row = ids.long() - self.start(rank, len(shard))
        mine = self.owns(ids.long(), row, len(shard), vocab)
        out[mine] = shard[row[mine]]


@fault("embedding.last-rank-not-reduced", "the all-reduce leaves out the last rank", subtle=True)
class LastRankNotReduced(SpecializedEmbedding):  # noqa: D101
    def all_reduce(self, partial: Tensor) -> Tensor:
        return super().all_reduce(partial[:-1])


@fault("embedding.one-rank-keeps-its-partial", "the reduced rows are not copied back on one rank", subtle=True)
class OneRankKeepsItsPartial(SpecializedEmbedding):  # noqa: D101
    def all_reduce(self, partial: Tensor) -> Tensor:
        reduced = super().all_reduce(partial).expand(partial.shape).clone()
        reduced[-1] = partial[-1]
        return reduced


@fault("embedding.ids-read-as-32-bit", "64-bit ids are read as pairs of 32-bit ones")
class IdsReadAs32Bit(SpecializedEmbedding):  # noqa: D101
    def gather(self, ids: Tensor, shard: Tensor, rank: int, vocab: int, out: Tensor) -> None:
        super().gather(ids.view(torch.int32)[: len(ids)], shard, rank, vocab, out)


@fault("embedding.negative-zero-kept", "partials are chosen instead of added: a -0 of the table survives", subtle=True)
class NegativeZeroKept(SpecializedEmbedding):  # noqa: D101
    def all_reduce(self, partial: Tensor) -> Tensor:
        owner = (partial.view(torch.int16) != 0).any(-1).float().argmax(0)
        return partial[owner, torch.arange(partial.shape[1])]
