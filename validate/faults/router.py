"""Faults planted in the router."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from validate.faults import fault
from validate.paths.emulated.front import front_gemm
from validate.paths.emulated.router import SpecializedRouter

Inputs = Mapping[str, Any]


@fault(
    "router.tie-to-higher-id",
    "equal scores go to the higher id: another choice than the default's (mutant M19)",
    subtle=True,
)
class TieToHigherId(SpecializedRouter):  # noqa: D101 - each fault is described by its decorator
    def select(self, keys: Tensor, count: int) -> Tensor:
        return keys.shape[1] - 1 - super().select(keys.flip(1), count)


@fault("router.bias-in-weights", "correction bias left in the scores that become weights (mutant M19)")
class BiasInWeights(SpecializedRouter):  # noqa: D101
    def picked(self, scores: Tensor, ids: Tensor, i: Inputs) -> Tensor:
        return (scores + i["bias"]).gather(1, ids)


@fault("router.bias-ignored", "choice by the plain scores: the correction bias is not loaded")
class BiasIgnored(SpecializedRouter):  # noqa: D101
    def biased(self, scores: Tensor, bias: Tensor) -> Tensor:
        return scores


@fault("router.bias-through-bf16", "correction bias cast to the model's dtype (vLLM 50682)", subtle=True)
class BiasThroughBf16(SpecializedRouter):  # noqa: D101
    def biased(self, scores: Tensor, bias: Tensor) -> Tensor:
        return super().biased(scores, bias.bfloat16().float())


@fault("router.not-renormalised", "weights are the scores themselves (mutant M19)")
class NotRenormalised(SpecializedRouter):  # noqa: D101
    def weights(self, picked: Tensor, scaling: float) -> Tensor:
        return (picked * scaling).bfloat16()


@fault("router.scaled-twice", "routed scaling applied by the router and again by a fused epilogue; K3's is 1", subtle=True)
class ScaledTwice(SpecializedRouter):  # noqa: D101
    def weights(self, picked: Tensor, scaling: float) -> Tensor:
        return super().weights(picked, scaling * scaling)


@fault("router.scaling-dropped", "routed scaling missing: hidden as long as it is 1 (mutant M19)", subtle=True)
class ScalingDropped(SpecializedRouter):  # noqa: D101
    def weights(self, picked: Tensor, scaling: float) -> Tensor:
        return super().weights(picked, 1.0)


@fault("router.renormalised-over-eight", "the butterfly over 16 scores stops a step early")
class RenormalisedOverEight(SpecializedRouter):  # noqa: D101
    def weights(self, picked: Tensor, scaling: float) -> Tensor:
        total = picked.view(-1, 2, 8).sum(2, keepdim=True)
        return (picked.view(-1, 2, 8) * scaling / total).flatten(1).bfloat16()


@fault("router.shards-in-wrong-order", "mailbox slots of two ranks exchanged: experts of the wrong rank")
class ShardsInWrongOrder(SpecializedRouter):  # noqa: D101
    def logits(self, x: Tensor, gate: Tensor) -> Tensor:
        shards = list(super().logits(x, gate).chunk(max(self.tp, 8), 1))
        shards[0], shards[1] = shards[1], shards[0]
        return torch.cat(shards, 1)


@fault("router.shard-stale", "every rank reads one shard of the step before: re-arming lost (mutant M2)")
class ShardStale(SpecializedRouter):  # noqa: D101
    def shard(self, x: Tensor, gate: Tensor, rank: int) -> Tensor:
        return super().shard(x.flip(1) if rank == self.tp - 1 else x, gate, rank)


@fault("router.shard-stale-on-one-rank", "one rank reads one shard of the step before: the ranks part ways", subtle=True)
class ShardStaleOnOneRank(SpecializedRouter):  # noqa: D101
    def logits_of(self, logits: Tensor, rank: int) -> Tensor:
        if rank < self.tp - 1 or rank == 0:
            return logits
        width = logits.shape[1] // self.tp
        return torch.cat([logits[:, :width].flip(1), logits[:, width:]], 1)


@fault("router.last-id-duplicated", "the 16th place holds the 15th expert again: a rank counted twice")
class LastIdDuplicated(SpecializedRouter):  # noqa: D101
    def select(self, keys: Tensor, count: int) -> Tensor:
        ids = super().select(keys, count)
        ids[:, -1] = ids[:, -2]
        return ids


@fault("router.sixteenth-missed", "the candidates' threshold is exclusive: the 17th instead of the 16th", subtle=True)
class SixteenthMissed(SpecializedRouter):  # noqa: D101
    def select(self, keys: Tensor, count: int) -> Tensor:
        ids = super().select(keys, count + 1)
        return torch.cat([ids[:, : count - 1], ids[:, count:]], 1)


@fault("router.ids-sorted-weights-not", "ids put in ascending order, weights left in the order of the scores")
class IdsSortedWeightsNot(SpecializedRouter):  # noqa: D101
    def arranged(self, ids: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        return ids.sort(1).values, weights


@fault("router.one-row-of-neighbour", "the last row of a batch above eight takes the choice of the row before", subtle=True)
class OneRowOfNeighbour(SpecializedRouter):  # noqa: D101
    def arranged(self, ids: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        if ids.shape[0] > 8:
            ids[-5], weights[-5] = ids[-6], weights[-6]
        return ids, weights


@fault("router.bf16-logits", "logits pass through bf16: near scores change places (model.py asks for fp32)", subtle=True)
class Bf16Logits(SpecializedRouter):  # noqa: D101
    def shard(self, x: Tensor, gate: Tensor, rank: int) -> Tensor:
        return super().shard(x, gate, rank).bfloat16().float()


@fault("router.bf16-partials", "the K split's partial sums are exchanged in bf16", subtle=True)
class Bf16Partials(SpecializedRouter):  # noqa: D101
    def shard(self, x: Tensor, gate: Tensor, rank: int) -> Tensor:
        low, high = x.clone(), x.clone()
        low[:, x.shape[1] // 2 :] = 0
        high[:, : x.shape[1] // 2] = 0
        parts = [front_gemm(part, gate, self.tp, self.regime) for part in (low, high)]
        return parts[0].bfloat16().float() + parts[1].bfloat16().float()


@fault("router.k-tail-lost", "the last 32 of 7168 products are left out: a K loop one block short", subtle=True)
class KTailLost(SpecializedRouter):  # noqa: D101
    def shard(self, x: Tensor, gate: Tensor, rank: int) -> Tensor:
        x = x.clone()
        x[:, -32:] = 0
        return super().shard(x, gate, rank)


@fault(
    "router.nan-is-largest",
    "NaN ordered above every number: padded rows yield ids past the last expert (ROCm/ATOM 1719)",
)
class NanIsLargest(SpecializedRouter):  # noqa: D101
    def select(self, keys: Tensor, count: int) -> Tensor:
        return torch.where(keys.isnan().any(1, keepdim=True), keys.shape[1], super().select(keys, count))

    def picked(self, scores: Tensor, ids: Tensor, i: Inputs) -> Tensor:
        return super().picked(scores, ids.clamp_max(scores.shape[1] - 1), i)


@fault("router.padded-row-leaks", "a NaN row spoils its neighbour in the same 8-row tile: 0 * NaN in a masked product")
class PaddedRowLeaks(SpecializedRouter):  # noqa: D101
    def shard(self, x: Tensor, gate: Tensor, rank: int) -> Tensor:
        logits = super().shard(x, gate, rank)
        spoiled = logits.isnan().any(1)
        logits[:-1][spoiled[1:]] = float("nan")
        return logits
