"""Multi-head latent attention as each path computes it: one rank, or all ranks and their shards of the context."""

import math
from typing import Any

import torch
from torch import Tensor

from validate.model.call import Call
from validate.model.gpu import SMS
from validate.paths.emulated.arithmetic import LOG2E, chain_sum, fma, gemm, sigmoid, tree_sum

BF16, E4M3 = torch.bfloat16, torch.float8_e4m3fn
E4M3_LARGEST = 448.0
TILE = 128  # keys that a core takes at a time
EMPTY_LSE = -3.0e38  # of a shard without keys, in the specialized path's merge (mla/dcp.py)
# Rows from which the query kernel uses tiles and MMAs, by heads (mla/query.py TILED_FROM); TP1's 96 have no kernel.
TILED_FROM = {12: 4, 6: 6, 96: 4}

Inputs = dict[str, Any]


class DefaultMla:
    """vLLM's layer (vLLM 0.33.0, models/kimi_k3/nvidia/mla.py) on FlashInfer's decode core.

    Norms by a Triton kernel, linear layers and batched products by a library, one kernel that quantises the query and
    inserts the row. The core is compiled: it is taken to scale its probabilities by the true maximum of a row, and to
    round them to the cache's dtype before they meet the values. Under context parallelism each rank scales its bf16
    output by exp(lse - total), and a reduce-scatter adds the bf16 outputs up. Rows of padded requests, which nobody
    reads, are set to zero.
    """

    def __call__(self, call: Call) -> None:
        """Runs the stage; ``reference.mla.reference`` says what the tensors are."""
        i = dict(call.inputs)
        self.shape = call.shape
        cache = call.buffers["cache"]
        self.dtype = cache.dtype
        query, row = self.query_and_row(call, i)
        call.outputs["query"].copy_(query)
        latent = self.insert_and_attend(cache, row, query.float(), i)
        call.outputs["out"].copy_(self.finish(latent, i))

    def query_and_row(self, call: Call, i: Inputs) -> tuple[Tensor, Tensor]:
        """In the cache's dtype: the absorbed query [rows, H, 576], and what each new token adds to the cache [rows, 576]."""
        heads, nope, _ = i["w_uk"].shape
        start, width = i["q_norm"].numel(), i["kv_norm"].numel()
        row_width = call.buffers["cache"].shape[-1]
        q_latent = self.norm_query(i["x"][:, :start].float(), i["q_norm"].float(), i["eps"])
        kv_latent = self.norm_row(i["x"][:, start : start + width].float(), i["kv_norm"].float(), i["eps"])
        q = self.project(q_latent, i["q_b"]).view(-1, heads, i["q_b"].shape[0] // heads)
        absorbed = self.absorb(q[..., :nope], i["w_uk"])
        query = self.quantise_query(torch.cat([absorbed, q[..., nope:].float()], -1), i)
        row = torch.cat([kv_latent.float(), i["x"][:, start + width : start + row_width].float()], -1)
        return query, self.quantise_row(row, i)

    def norm_query(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        """bf16 RMSNorm of the query latent."""
        return self.norm(x, weight, eps)

    def norm_row(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        """bf16 RMSNorm of the key-value latent."""
        return self.norm(x, weight, eps)

    def norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        """One program a row: the squares are summed by a tree over the next power of two."""
        squares = torch.nn.functional.pad(x * x, (0, (1 << (x.shape[1] - 1).bit_length()) - x.shape[1]))
        return (x * torch.rsqrt(tree_sum(squares) / x.shape[1] + eps)[:, None] * weight).to(BF16)

    def project(self, x: Tensor, weight: Tensor) -> Tensor:
        """bf16 [rows, H * 192]: the query projection."""
        return gemm(x, weight).to(BF16)

    def absorb(self, q: Tensor, w_uk: Tensor) -> Tensor:
        """bf16-rounded [rows, H, 512]: the query in the latent space."""
        return self.round_absorbed(_by_head(q, w_uk))

    def round_absorbed(self, absorbed: Tensor) -> Tensor:
        """The absorbed query as it goes to the quantisation."""
        return absorbed.to(BF16).float()

    def quantise_query(self, query: Tensor, i: Inputs) -> Tensor:
        """The query in the cache's dtype."""
        return e4m3(query * i["q_scale_inv"]) if self.dtype == E4M3 else query.to(self.dtype)

    def quantise_row(self, row: Tensor, i: Inputs) -> Tensor:
        """The new rows in the cache's dtype."""
        return e4m3(row * i["k_scale_inv"]) if self.dtype == E4M3 else row.to(self.dtype)

    def insert_and_attend(self, cache: Tensor, row: Tensor, query: Tensor, i: Inputs) -> Tensor:
        """The new rows are in the cache before attention reads it: a token sees itself."""
        self.insert(cache, row, i["slots"])
        return self.attend(cache, query, i)

    def insert(self, cache: Tensor, row: Tensor, slots: Tensor) -> None:
        """Writes each row to its slot; -1 is not written."""
        shard, token = (slots >= 0).nonzero(as_tuple=True)
        slot = slots[shard, token]
        cache[shard, slot // cache.shape[2], slot % cache.shape[2]] = row[token]

    def attend(self, cache: Tensor, query: Tensor, i: Inputs) -> Tensor:
        """bf16 [rows, H, 512] latent output."""
        q, shards = self.shape["q"], cache.shape[0]
        width = i["kv_norm"].numel()
        units, out_scale = self.softmax_units(i), self.output_scale(i)
        latent = torch.zeros(*query.shape[:2], width, dtype=BF16)
        for b, total in enumerate(i["totals"].tolist()):
            if not self.runs(total):
                continue
            rows = slice(b * q, (b + 1) * q)
            outs, sums = [], []
            for shard in range(shards):
                bounds = self.bounds(i, shard, b)
                keys = self.keys(cache, i, shard, b, int(i["lengths"][shard, b]))
                out, lse = self.core(query[rows], keys, bounds, units, out_scale, width)
                outs.append(out.to(BF16))
                sums.append(lse)
            if shards == 1:
                latent[rows] = outs[0]
                continue
            empty = i["lengths"][:, b] <= 0
            latent[rows] = self.merge(torch.stack(outs).float(), torch.stack(sums), empty)
        return latent

    def runs(self, total: int) -> bool:
        """Whether a request has anything to attend to."""
        return total > 0

    def softmax_units(self, i: Inputs) -> float:
        """From a raw score to powers of two."""
        scale = i["scale"] * (i["q_scale"] * i["k_scale"] if self.dtype == E4M3 else 1.0)
        return float(torch.tensor(scale, dtype=torch.float32)) * LOG2E

    def output_scale(self, i: Inputs) -> float:
        """From cache units to the latent's."""
        return i["k_scale"] if self.dtype == E4M3 else 1.0

    def bounds(self, i: Inputs, shard: int, b: int) -> Tensor:
        """[q]: how many of the shard's keys each row of request ``b`` sees: those up to its own position."""
        q, shards, interleave = self.shape["q"], self.shape["dcp"], i["interleave"]
        seen = i["totals"][b] - q + 1 + torch.arange(q)
        full = seen // (shards * interleave)
        rest = seen - full * (shards * interleave) - shard * interleave
        return full * interleave + rest.clamp(0, interleave)

    def keys(self, cache: Tensor, i: Inputs, shard: int, b: int, length: int) -> Tensor:
        """fp32 [length, 576]: the request's rows on the shard, in order, as they are stored."""
        block = cache.shape[2]
        pages = self.pages(i["table"], b, -(-length // block))
        return cache[shard, pages.long()].flatten(0, 1)[:length].float()

    def pages(self, table: Tensor, b: int, count: int) -> Tensor:
        """The first ``count`` pages of request ``b``."""
        return table[b, :count]

    def core(
        self, query: Tensor, keys: Tensor, bounds: Tensor, units: float, out_scale: float, width: int
    ) -> tuple[Tensor, Tensor]:
        """fp32 output [q, H, 512] and log2-sum-exp2 [q, H] over one shard; NaN where the shard has no keys at all."""
        if len(keys) == 0:
            return _nothing(query, width)
        scores = self.scores(query, keys, bounds)
        top = self.row_maximum(scores)
        weights = self.weights(scores, top, units)
        total = weights.sum(-1)
        weights = self.round_weights(weights)
        out = torch.zeros(*query.shape[:2], width)
        for first in range(0, len(keys), TILE):
            out += weights[..., first : first + TILE] @ keys[first : first + TILE, :width]
        safe = torch.where(total == 0, 1.0, total)
        return out / safe[..., None] * out_scale, torch.log2(total) + top * units

    def scores(self, query: Tensor, keys: Tensor, bounds: Tensor) -> Tensor:
        """fp32 raw scores [q, H, n]; what a row may not see is -inf."""
        hidden = torch.arange(len(keys)) >= bounds[:, None, None]
        return (query @ keys.T).masked_fill(hidden, -torch.inf)

    def round_weights(self, weights: Tensor) -> Tensor:
        """The probabilities as they meet the values."""
        return (e4m3(weights) if self.dtype == E4M3 else weights.to(self.dtype)).float()

    def row_maximum(self, scores: Tensor) -> Tensor:
        """[q, H]: the maximum that is subtracted; 0 where a row sees nothing."""
        top = scores.amax(-1)
        return torch.where(top == -torch.inf, 0.0, top)

    def weights(self, scores: Tensor, top: Tensor, units: float) -> Tensor:
        """fp32 exp2 of the scaled difference from the maximum, which is one fused multiply-add."""
        return torch.exp2(fma(scores, torch.tensor(units), -(top * units)[..., None]).double()).float()

    def merge(self, outs: Tensor, lse: Tensor, empty: Tensor) -> Tensor:
        """bf16 [q, H, 512] from the shards' outputs and logarithms: each output scaled, rounded, and added in bf16."""
        lse = torch.where(empty[:, None, None] | lse.isnan(), -torch.inf, lse) * math.log(2)  # this core's are natural
        top = lse.amax(0)
        top = torch.where(top == -torch.inf, 0.0, top)
        total = torch.log(torch.exp(lse - top).sum(0)) + top
        factor = torch.exp(lse - total)
        scaled = torch.where(factor[..., None] == 0, 0.0, outs * factor[..., None]).to(BF16)
        merged = scaled[0]
        for part in scaled[1:]:
            merged = merged + part
        return merged

    def finish(self, latent: Tensor, i: Inputs) -> Tensor:
        """bf16 [rows, H * 128]: the value projection, gated; padded rows are zero."""
        value = self.round_value(self.project_value(latent, i["w_uv"])).flatten(1)
        gated = self.gate(value, i["x"][:, -value.shape[1] :].float())
        live = self.live(i).repeat_interleave(self.shape["q"])
        return torch.where(live[:, None], gated, 0.0).to(BF16)

    def live(self, i: Inputs) -> Tensor:
        """[requests]: which are not padding."""
        return i["totals"] > 0

    def project_value(self, latent: Tensor, w_uv: Tensor) -> Tensor:
        """fp32 [rows, H, 128]."""
        return _by_head(latent, w_uv)

    def round_value(self, value: Tensor) -> Tensor:
        """The projected value as it meets the gate."""
        return value.to(BF16).float()

    def gate(self, value: Tensor, gate: Tensor) -> Tensor:
        """fp32 product with the logistic function of the gate."""
        return value * sigmoid(gate)


class SpecializedMla(DefaultMla):
    """``MlaQuery``, a core and ``MlaValue`` or ``DcpValue`` (vLLM 0.33.0, specialized_decode/cutedsl/mla).

    Reads FP8 caches only. ``regime``, the rows that the kernels were prepared for, selects the query kernel (scalar or
    tiled), the core (tokenspeed, or from 16 rows of plain decode the default's) and the number of tokenspeed's splits.
    """

    @staticmethod
    def missing(call: Call) -> str | None:
        """The path views every cache as bytes and writes 576 of them a row (mla/prepared.py)."""
        return None if call.buffers["cache"].dtype == E4M3 else "the specialized path has an FP8 cache only"

    def __call__(self, call: Call) -> None:
        """Runs the stage in the regime of the call."""
        self.heads, self.regime = call.inputs["w_uk"].shape[0] // call.shape["dcp"], call.shape["regime"]
        self.tiled = self.regime >= TILED_FROM.get(self.heads, 4)
        super().__call__(call)

    def norm_query(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        """A warp a row in four chains (tiled), or 192 threads of eight columns; then warps by a butterfly, in order."""
        if self.tiled:
            lanes = x.view(-1, 6, 32, 8).transpose(1, 2).reshape(len(x), 32, 12, 4)
            chains = torch.zeros(len(x), 32, 4)
            for step in range(12):
                chains = fma(lanes[:, :, step], lanes[:, :, step], chains)
            total = tree_sum((chains[..., 0] + chains[..., 1]) + (chains[..., 2] + chains[..., 3]))
        else:
            total = self.warp_squares(x)
        return (x * torch.rsqrt(total / x.shape[1] + eps)[:, None] * weight).to(BF16)

    def norm_row(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        """64 threads of eight columns; the mean is one fused multiply-add."""
        mean = fma(self.warp_squares(x), torch.tensor(1 / x.shape[1]), torch.tensor(eps))
        return (x * torch.rsqrt(mean)[:, None] * weight).to(BF16)

    def warp_squares(self, x: Tensor) -> Tensor:
        """[rows]: the sum of squares, eight columns a thread in order, a butterfly in each warp, the warps in order."""
        threads = x.view(len(x), -1, 32, 8)
        total = torch.zeros(threads.shape[:3])
        for column in range(8):
            total = fma(threads[..., column], threads[..., column], total)
        return chain_sum(tree_sum(total).T)

    def project(self, x: Tensor, weight: Tensor) -> Tensor:
        """Tiled: eight warps of 192 columns, added in order. Scalar: two chains of 24 a lane, then a butterfly."""
        if self.tiled:
            return chain_sum(torch.stack([gemm(x[:, c : c + 192], weight[:, c : c + 192]) for c in range(0, 1536, 192)])).to(BF16)
        a = x.float().view(len(x), 1, 6, 32, 4, 2)
        out = []
        for part in weight.split(1024):
            b = part.float().view(1, len(part), 6, 32, 4, 2)
            total = torch.zeros(len(x), len(part), 32, 2)
            for chunk in range(6):
                for pair in range(4):
                    total = fma(b[:, :, chunk, :, pair], a[:, :, chunk, :, pair], total)
            out.append(tree_sum(total[..., 0] + total[..., 1]))
        return torch.cat(out, 1).to(BF16)

    def absorb(self, q: Tensor, w_uk: Tensor) -> Tensor:
        """Tiled: a chain of MMAs. Scalar: groups of 16 or 32 channels in two chains each, the groups in order."""
        if self.tiled:
            return super().absorb(q, w_uk)
        width = 512 // (16 if self.heads == 6 else 8) // 2
        a = q.float().unflatten(-1, (-1, width // 2, 2)).transpose(0, 1)[..., None]  # [H, rows, groups, steps, 2, 1]
        b = w_uk.float().unflatten(1, (-1, width // 2, 2))[:, None]
        total = torch.zeros(1)
        for step in range(width // 2):
            total = fma(a[:, :, :, step], b[:, :, :, step], total)
        groups = total[..., 0, :] + total[..., 1, :]
        return self.round_absorbed(chain_sum(groups.movedim(2, 0)).transpose(0, 1))

    def core(
        self, query: Tensor, keys: Tensor, bounds: Tensor, units: float, out_scale: float, width: int
    ) -> tuple[Tensor, Tensor]:
        """The core of tokenspeed_mla 2.0.3 (mla_decode_fp8.py): tiles dealt to splits, merged by their log-sum-exp."""
        if self.regime >= 16 and self.shape["q"] == 1 and self.shape["dcp"] == 1:
            return super().core(query, keys, bounds, units, out_scale, width)
        if len(keys) == 0:
            return _nothing(query, width)
        scores = self.scores(query, keys, bounds)
        tiles = -(-len(keys) // TILE)
        length = -(-tiles // self.splits()) * TILE
        outs, sums = [], []
        for first in range(0, len(keys), length):
            part = slice(first, first + length)
            out, lse = self.split(scores[..., part], keys[part, :width], units)
            outs.append(out)
            sums.append(lse)
        return self.reduce(torch.stack(outs), torch.stack(sums), out_scale)

    def splits(self) -> int:
        """``fill_splits`` of mla/dcp.py, or tokenspeed's own get_split_kv_simplified, the larger."""
        tiles = -(-self.heads * self.shape["dcp"] * self.shape["q"] // 128)
        requests = self.regime // self.shape["q"]
        return max(1, SMS // (2 * self.regime), min(32, SMS // requests // (2 * tiles)))

    def split(self, scores: Tensor, values: Tensor, units: float) -> tuple[Tensor, Tensor]:
        """Normalised fp32 output and log2-sum-exp2 of one split: the running softmax over its tiles."""
        out = torch.zeros(*scores.shape[:2], values.shape[1])
        total = torch.zeros(scores.shape[:2])
        top = torch.full(scores.shape[:2], -torch.inf)
        for first in range(0, len(values), TILE):
            tile = scores[..., first : first + TILE]
            new = torch.maximum(top, tile.amax(-1))
            keeps = self.keeps_maximum(new, top, units)
            factor = torch.where(keeps | (new == top), 1.0, torch.exp2(((top - new) * units).double()).float())
            top = torch.where(keeps, top, new)
            weights = self.weights(tile, torch.where(top == -torch.inf, 0.0, top), units)
            total = total * factor + weights.sum(-1)
            out = out * factor[..., None] + self.round_weights(weights) @ values[first : first + TILE]
        safe = torch.where(total == 0, 1.0, total)
        shown = torch.where(total == 0, 0.0, top)
        return out * (1 / safe)[..., None], torch.log2(total) + shown * units

    def keeps_maximum(self, new: Tensor, top: Tensor, units: float) -> Tensor:
        """Where the old maximum is kept, because the new one passes it by no more than 2**8: E4M3 holds that much."""
        return (top > -torch.inf) & ((new - top) * units <= 8.0)

    def reduce(self, outs: Tensor, lse: Tensor, out_scale: float) -> tuple[Tensor, Tensor]:
        """The splits' outputs, weighted by exp2(lse - total) and added in order in fp32."""
        top = lse.amax(0)
        top = torch.where(top == -torch.inf, 0.0, top)
        total = top + torch.log2(torch.exp2(lse - top).sum(0))
        scale = self.split_weights(lse, total) * out_scale
        merged = torch.zeros_like(outs[0])
        for out, weight in zip(outs, scale, strict=True):
            merged = fma(out, weight[..., None], merged)
        return merged, total

    def split_weights(self, lse: Tensor, total: Tensor) -> Tensor:
        """Each split's share of the whole; zero for one in which a row sees nothing."""
        return torch.where(lse == -torch.inf, 0.0, torch.exp2((lse - total).double()).float())

    def merge(self, outs: Tensor, lse: Tensor, empty: Tensor) -> Tensor:
        """``DcpValue.merge`` (mla/dcp.py): fp32 throughout, shards in order, one rounding."""
        outs = self.sent_outputs(outs, empty)
        lse = self.sent_lse(lse, empty)
        weights = self.shard_weights(lse)
        merged = torch.zeros_like(outs[0])
        for out, weight in zip(outs, weights, strict=True):
            merged = fma(out, weight[..., None], merged)
        return merged.to(BF16)

    def sent_outputs(self, outs: Tensor, empty: Tensor) -> Tensor:
        """Partial outputs as they are sent to the heads' owner: zeros from a shard without keys."""
        return torch.where(empty[:, None, None, None], 0.0, outs)

    def sent_lse(self, lse: Tensor, empty: Tensor) -> Tensor:
        """Log-sum-exps as they are sent: finite, so that the merge never forms inf - inf."""
        bad = empty[:, None, None] | ~lse.isfinite()
        return torch.where(bad, EMPTY_LSE, lse)

    def shard_weights(self, lse: Tensor) -> Tensor:
        """[shards, q, H]: each shard's share."""
        weights = torch.where(lse > EMPTY_LSE, self.power(lse - lse.amax(0)), 0.0)
        total = weights.sum(0)
        return torch.where(total > 0, weights / torch.where(total > 0, total, 1.0), 0.0)

    def power(self, x: Tensor) -> Tensor:
        """The base of the log-sum-exps to the power of ``x``."""
        return torch.exp2(x.double()).float()

    def project_value(self, latent: Tensor, w_uv: Tensor) -> Tensor:
        """Two chains of MMAs: of every eight latent columns the first four, and the other four (mla/value.py)."""
        halves = latent.unflatten(-1, (-1, 2, 4)), w_uv.unflatten(1, (-1, 2, 4))
        chains = [_by_head(halves[0][..., c, :].flatten(2), halves[1][:, :, c].flatten(1, 2)) for c in (0, 1)]
        return chains[0] + chains[1]


def e4m3(x: Tensor) -> Tensor:
    """cvt.rn.satfinite.e4m3: to nearest, cut off at 448; NaN stays NaN."""
    return x.clamp(-E4M3_LARGEST, E4M3_LARGEST).to(E4M3)


def _by_head(x: Tensor, weight: Tensor, step: int = 64) -> Tensor:
    """fp32 [rows, H, n]: x [rows, H, k] times weight [H, k, n], ``step`` products at a time (``arithmetic.gemm``)."""
    left = x.transpose(0, 1).float()
    total = torch.zeros(len(left), left.shape[1], weight.shape[2])
    for start in range(0, weight.shape[1], step):
        total += torch.bmm(left[..., start : start + step], weight[:, start : start + step].float())
    return total.transpose(0, 1)


def _nothing(query: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """What a core leaves for a request without keys: undefined, so NaN."""
    return torch.full((*query.shape[:2], width), torch.nan), torch.full(query.shape[:2], torch.nan)
