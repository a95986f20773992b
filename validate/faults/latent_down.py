"""Faults planted in the projection into the experts' latent space."""

import torch
from torch import Tensor

from validate.faults import fault
from validate.paths.emulated.front import front_gemm
from validate.paths.emulated.latent_down import SpecializedLatentDown


@fault("latent_down.shards-in-wrong-order", "mailbox columns of two ranks exchanged: latent base of the wrong rank")
class ShardsInWrongOrder(SpecializedLatentDown):  # noqa: D101 - each fault is described by its decorator
    def gather(self, shards: list[Tensor]) -> list[Tensor]:
        return [*shards[1:2], shards[0], *shards[2:]]


@fault(
    "latent_down.shard-stale-on-one-rank",
    "one rank reads one shard of the step before: the ranks part ways",
    subtle=True,
)
class ShardStaleOnOneRank(SpecializedLatentDown):  # noqa: D101
    def latent_of(self, latent: Tensor, rank: int) -> Tensor:
        if rank == 0 or rank < self.tp - 1:
            return latent
        width = latent.shape[1] // self.tp
        return torch.cat([latent[:, :width].flip(1), latent[:, width:]], 1)


@fault("latent_down.shard-stale", "every rank reads one shard of the step before: re-arming lost (mutant M2)")
class ShardStale(SpecializedLatentDown):  # noqa: D101
    def shard(self, x: Tensor, weight: Tensor, rank: int) -> Tensor:
        return super().shard(x.flip(1) if rank == self.tp - 1 else x, weight, rank)


@fault("latent_down.bf16-partials", "the K split's partial sums are exchanged in bf16", subtle=True)
class Bf16Partials(SpecializedLatentDown):  # noqa: D101
    def product(self, x: Tensor, weight: Tensor) -> Tensor:
        low, high = x.clone(), x.clone()
        low[:, x.shape[1] // 2 :] = 0
        high[:, : x.shape[1] // 2] = 0
        parts = [front_gemm(part, weight, self.tp, self.regime) for part in (low, high)]
        return parts[0].bfloat16().float() + parts[1].bfloat16().float()


@fault("latent_down.cut-off", "rounded towards zero instead of to nearest on the way into the mailbox", subtle=True)
class CutOff(SpecializedLatentDown):  # noqa: D101
    def published(self, value: Tensor) -> Tensor:
        return (value.view(torch.int32) & -65536).view(torch.float32).bfloat16()


@fault("latent_down.negative-zero-published", "-0 not folded: a (+0, -0) pair is the sentinel, its reader hangs (mutant M1)")
class NegativeZeroPublished(SpecializedLatentDown):  # noqa: D101
    def published(self, value: Tensor) -> Tensor:
        return value.bfloat16()


@fault("latent_down.through-fp16", "partial sums held in fp16: small ones lose bits, large ones overflow", subtle=True)
class ThroughFp16(SpecializedLatentDown):  # noqa: D101
    def product(self, x: Tensor, weight: Tensor) -> Tensor:
        return super().product(x, weight).half().float()


@fault("latent_down.k-tail-lost", "the last 32 of 7168 products are left out: a K loop one block short", subtle=True)
class KTailLost(SpecializedLatentDown):  # noqa: D101
    def product(self, x: Tensor, weight: Tensor) -> Tensor:
        x = x.clone()
        x[:, -32:] = 0
        return super().product(x, weight)


@fault(
    "latent_down.last-channels-of-neighbour",
    "a rank's last 16 channels are the ones before: a ragged last tile",
    subtle=True,
)
class LastChannelsOfNeighbour(SpecializedLatentDown):  # noqa: D101
    def shard(self, x: Tensor, weight: Tensor, rank: int) -> Tensor:
        shard = super().shard(x, weight, rank)
        if rank == self.tp - 1:
            shard[:, -16:] = shard[:, -32:-16]
        return shard


@fault("latent_down.row-missing", "the last row of a partly filled 8-row tile is not published: the poison stays")
class RowMissing(SpecializedLatentDown):  # noqa: D101
    def published(self, value: Tensor) -> Tensor:
        value = super().published(value)
        if value.shape[0] % 8:
            value[value.shape[0] - 1] = float("nan")
        return value


@fault("latent_down.padded-row-leaks", "a NaN row spoils its neighbour in the same 8-row tile: 0 * NaN in a masked product")
class PaddedRowLeaks(SpecializedLatentDown):  # noqa: D101
    def product(self, x: Tensor, weight: Tensor) -> Tensor:
        value = super().product(x, weight)
        spoiled = value.isnan().any(1)
        value[:-1][spoiled[1:]] = float("nan")
        return value
