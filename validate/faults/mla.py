"""Faults planted in multi-head latent attention."""

from typing import Any

import torch
from torch import Tensor

from validate.faults import fault
from validate.paths.emulated.arithmetic import LOG2E
from validate.paths.emulated.mla import TILE, SpecializedMla, e4m3

Inputs = dict[str, Any]


@fault("mla.page-off-by-one", "block table indexed one page too far after the first page")
class PageOffByOne(SpecializedMla):  # noqa: D101 - each fault is described by its decorator
    def pages(self, table: Tensor, b: int, count: int) -> Tensor:
        pages = super().pages(table, b, count)
        return pages if count < 2 else torch.cat([pages[:1], pages[2:], pages[1:2]])


@fault("mla.table-of-neighbour", "one request of the batch reads its neighbour's block table", subtle=True)
class TableOfNeighbour(SpecializedMla):  # noqa: D101
    def pages(self, table: Tensor, b: int, count: int) -> Tensor:
        return super().pages(table, b - 1 if 0 < b == len(table) - 1 else b, count)


@fault("mla.own-token-missed", "causal bound one too low: a token does not see itself")
class OwnTokenMissed(SpecializedMla):  # noqa: D101
    def bounds(self, i: Inputs, shard: int, b: int) -> Tensor:
        return super().bounds(i, shard, b) - 1


@fault("mla.next-token-seen", "verify rows see the draft token after their own")
class NextTokenSeen(SpecializedMla):  # noqa: D101
    def bounds(self, i: Inputs, shard: int, b: int) -> Tensor:
        return (super().bounds(i, shard, b) + 1).clamp_max(i["lengths"][shard, b])


@fault("mla.inserted-after-attention", "the new row reaches the cache after attention has read it (mutant M26)")
class InsertedAfterAttention(SpecializedMla):  # noqa: D101
    def insert_and_attend(self, cache: Tensor, row: Tensor, query: Tensor, i: Inputs) -> Tensor:
        latent = self.attend(cache, query, i)
        self.insert(cache, row, i["slots"])
        return latent


@fault("mla.padding-slot-clamped", "slot -1 clamped to 0: padding overwrites the null page (tokenspeed 700)")
class PaddingSlotClamped(SpecializedMla):  # noqa: D101
    def insert(self, cache: Tensor, row: Tensor, slots: Tensor) -> None:
        super().insert(cache, row, slots.clamp_min(0))


@fault("mla.pe-not-inserted", "the key's unrotated part of the new row is left as the page was", subtle=True)
class PeNotInserted(SpecializedMla):  # noqa: D101
    def insert(self, cache: Tensor, row: Tensor, slots: Tensor) -> None:
        old = cache[..., 512:].clone()
        super().insert(cache, row, slots)
        cache[..., 512:] = old


@fault("mla.key-scale-twice", "the key scale enters the output twice (TensorRT-LLM 16916: scales of an FP8 cache)")
class KeyScaleTwice(SpecializedMla):  # noqa: D101
    def output_scale(self, i: Inputs) -> float:
        return super().output_scale(i) ** 2


@fault("mla.key-scale-missing", "the softmax scale leaves the key scale out (TensorRT-LLM 16916)")
class KeyScaleMissing(SpecializedMla):  # noqa: D101
    def softmax_units(self, i: Inputs) -> float:
        return super().softmax_units({**i, "k_scale": 1.0})


@fault("mla.query-scale-missing", "the query is cast to FP8 without its scale")
class QueryScaleMissing(SpecializedMla):  # noqa: D101
    def quantise_query(self, query: Tensor, i: Inputs) -> Tensor:
        return e4m3(query)


@fault("mla.no-maximum", "softmax without subtracting the maximum: overflows on large scores")
class NoMaximum(SpecializedMla):  # noqa: D101
    def weights(self, scores: Tensor, top: Tensor, units: float) -> Tensor:
        return super().weights(scores, torch.zeros_like(top), units)


@fault("mla.maximum-never-rises", "the rescaling is always skipped: weights pass E4M3's largest number", subtle=True)
class MaximumNeverRises(SpecializedMla):  # noqa: D101
    def keeps_maximum(self, new: Tensor, top: Tensor, units: float) -> Tensor:
        return top > -torch.inf


@fault("mla.hidden-keys-finite", "hidden keys score -1e6 before scaling, which small FP8 scales bring near", subtle=True)
class HiddenKeysFinite(SpecializedMla):  # noqa: D101
    def keys(self, cache: Tensor, i: Inputs, shard: int, b: int, length: int) -> Tensor:
        return torch.nn.functional.pad(super().keys(cache, i, shard, b, length), (0, 0, 0, -length % TILE))

    def scores(self, query: Tensor, keys: Tensor, bounds: Tensor) -> Tensor:
        return super().scores(query, keys, bounds).clamp_min(-1.0e6)


@fault("mla.tail-of-page-read", "keys behind the last one enter with weight 0: NaN if the page has NaN (vLLM 51039)")
class TailOfPageRead(SpecializedMla):  # noqa: D101
    def keys(self, cache: Tensor, i: Inputs, shard: int, b: int, length: int) -> Tensor:
        return super().keys(cache, i, shard, b, -(-length // cache.shape[2]) * cache.shape[2])


@fault("mla.weights-not-rounded", "probabilities stay fp32 where the kernel has E4M3: another kernel was run", subtle=True)
class WeightsNotRounded(SpecializedMla):  # noqa: D101
    def round_weights(self, weights: Tensor) -> Tensor:
        return weights


@fault("mla.last-split-lost", "the reduction leaves the last split out")
class LastSplitLost(SpecializedMla):  # noqa: D101
    def split_weights(self, lse: Tensor, total: Tensor) -> Tensor:
        weights = super().split_weights(lse, total)
        if len(weights) > 1:
            weights[-1] = 0.0
        return weights


@fault("mla.splits-unweighted", "splits are averaged instead of weighted by their log-sum-exp")
class SplitsUnweighted(SpecializedMla):  # noqa: D101
    def split_weights(self, lse: Tensor, total: Tensor) -> Tensor:
        return torch.full_like(lse, 1 / len(lse))


@fault("mla.merge-in-base-e", "binary log-sum-exps of the shards merged as natural ones (mutant M18)", subtle=True)
class MergeInBaseE(SpecializedMla):  # noqa: D101
    def power(self, x: Tensor) -> Tensor:
        return super().power(x * LOG2E)


@fault("mla.totals-for-lengths", "verify rows masked by local lengths where the total ones belong (mutant M17)")
class TotalsForLengths(SpecializedMla):  # noqa: D101
    def bounds(self, i: Inputs, shard: int, b: int) -> Tensor:
        if self.shape["dcp"] == 1:
            return super().bounds(i, shard, b)
        q = self.shape["q"]
        return (i["lengths"][shard, b] - q + 1 + torch.arange(q)).clamp_min(0)


@fault("mla.lengths-for-totals", "rows count as padding if one rank's shard, the last, is empty (mutant M17)")
class LengthsForTotals(SpecializedMla):  # noqa: D101
    def live(self, i: Inputs) -> Tensor:
        return i["lengths"][-1] > 0


@fault("mla.empty-shard-counts", "an empty shard sends 0 as its log-sum-exp and takes part (vllm-ascend 14126)")
class EmptyShardCounts(SpecializedMla):  # noqa: D101
    def sent_lse(self, lse: Tensor, empty: Tensor) -> Tensor:
        return torch.where(empty[:, None, None], 0.0, super().sent_lse(lse, empty))


@fault("mla.empty-shard-not-zeroed", "an empty shard's undefined output is multiplied by weight 0: NaN (mutant M17)")
class EmptyShardNotZeroed(SpecializedMla):  # noqa: D101
    def sent_outputs(self, outs: Tensor, empty: Tensor) -> Tensor:
        return outs


@fault("mla.interleave-ignored", "positions dealt to the shards one by one whatever the interleave (vLLM 50391)")
class InterleaveIgnored(SpecializedMla):  # noqa: D101
    def bounds(self, i: Inputs, shard: int, b: int) -> Tensor:
        return super().bounds({**i, "interleave": 1}, shard, b)


@fault("mla.absorbed-by-neighbour", "queries absorbed by the neighbouring head's W_UK")
class AbsorbedByNeighbour(SpecializedMla):  # noqa: D101
    def absorb(self, q: Tensor, w_uk: Tensor) -> Tensor:
        return super().absorb(q, w_uk.roll(1, 0))


@fault("mla.value-of-one-head", "one head in 12 (or 6) is projected by its neighbour's W_UV", subtle=True)
class ValueOfOneHead(SpecializedMla):  # noqa: D101
    def project_value(self, latent: Tensor, w_uv: Tensor) -> Tensor:
        return super().project_value(latent, torch.cat([w_uv[:-1], w_uv[-2:-1]]))


@fault("mla.gate-missing", "the output gate is left out")
class GateMissing(SpecializedMla):  # noqa: D101
    def gate(self, value: Tensor, gate: Tensor) -> Tensor:
        return value


@fault("mla.padding-reaches-output", "padded rows are gated like live ones: NaN of an undefined gate gets out (mutant M16)")
class PaddingReachesOutput(SpecializedMla):  # noqa: D101
    def live(self, i: Inputs) -> Tensor:
        return torch.ones_like(i["totals"], dtype=torch.bool)


@fault("mla.absorbed-not-rounded", "one head in 12 (or 6) goes to FP8 without the rounding to bf16", subtle=True)
class AbsorbedNotRounded(SpecializedMla):  # noqa: D101
    def round_absorbed(self, absorbed: Tensor) -> Tensor:
        return torch.cat([super().round_absorbed(absorbed)[:, :-1], absorbed[:, -1:]], 1)


@fault("mla.row-not-rounded", "the normed row goes to the FP8 cache without the rounding to bf16", subtle=True)
class RowNotRounded(SpecializedMla):  # noqa: D101
    def norm_row(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


@fault("mla.value-not-rounded", "the projected value meets the gate in fp32, without its rounding to bf16", subtle=True)
class ValueNotRounded(SpecializedMla):  # noqa: D101
    def round_value(self, value: Tensor) -> Tensor:
        return value


@fault("mla.query-epsilon-missing", "the epsilon under the query latent's norm is left out", subtle=True)
class QueryEpsilonMissing(SpecializedMla):  # noqa: D101
    def norm_query(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        return super().norm_query(x, weight, 0.0)


@fault("mla.row-epsilon-missing", "the epsilon under the key-value latent's norm is left out", subtle=True)
class RowEpsilonMissing(SpecializedMla):  # noqa: D101
    def norm_row(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        return super().norm_row(x, weight, 0.0)


@fault("mla.subnormals-flushed", "the conversion of queries to E4M3 turns its subnormals into zeros", subtle=True)
class SubnormalsFlushed(SpecializedMla):  # noqa: D101
    def quantise_query(self, query: Tensor, i: Inputs) -> Tensor:
        quantised = super().quantise_query(query, i)
        return torch.where(quantised.float().abs() < 2.0**-6, 0.0, quantised.float()).to(quantised.dtype)
