"""Faults planted in what the layers compute: the wrong row, weight, partial sum or precision."""

import torch
from torch import Tensor

from validate.faults.engine import fault
from validate.standin.forms import Weights
from validate.standin.specialized import SpecializedForms


@fault("one-head-one-rounding", "one head of one layer passes through bf16 once more", shown="float32")
class OneHeadOneRounding(SpecializedForms):  # noqa: D101 - each fault is described by its decorator
    def kda_out(self, weights: Weights, attended: Tensor, gate: Tensor) -> Tensor:
        if "gate_up" in weights:  # the layer with a dense MLP is the first
            attended = torch.cat([attended[:, :1].bfloat16().float(), attended[:, 1:]], 1)
        return super().kda_out(weights, attended, gate)


@fault(
    "router-logits-in-bf16", "the router's logits pass through bf16: near ties choose other experts (vLLM 50682)", shown="float32"
)
class RouterLogitsInBf16(SpecializedForms):  # noqa: D101
    def router_logits(self, x: Tensor, weight: Tensor) -> Tensor:
        return super().router_logits(x, weight).bfloat16().float()


@fault("error-grows", "decode writes MLA's cache without its scale: the wrong part grows with the output (TensorRT-LLM 16916)")
class ErrorGrows(SpecializedForms):  # noqa: D101
    def mla_heads(self, weights: Weights, q_a: Tensor, kv: Tensor, k_pe: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = super().mla_heads(weights, q_a, kv, k_pe)
        return query, key, value * 1.25


# E4M3 in place of bf16 in two rows of six adds less than the other roundings to bf16 do: float32 shows it.
@fault(
    "cache-in-fp8",
    "decode's rows of MLA's cache pass through E4M3 where the deployment asks for bf16",
    shown="float32",
)
class CacheInFp8(SpecializedForms):  # noqa: D101
    def mla_heads(self, weights: Weights, q_a: Tensor, kv: Tensor, k_pe: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, *rows = super().mla_heads(weights, q_a, kv, k_pe)
        key, value = (row.to(torch.float8_e4m3fn).to(row.dtype) for row in rows)
        return query, key, value


@fault("cache-row-of-neighbour", "a row of MLA's cache goes to the next request's page")
class CacheRowOfNeighbour(SpecializedForms):  # noqa: D101
    def mla_heads(self, weights: Weights, q_a: Tensor, kv: Tensor, k_pe: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = super().mla_heads(weights, q_a, kv, k_pe)
        return query, key.roll(1, 0), value.roll(1, 0)


@fault("router-bias-ignored", "experts chosen without the correction bias")
class RouterBiasIgnored(SpecializedForms):  # noqa: D101
    def route(self, weights: Weights, x: Tensor) -> tuple[Tensor, Tensor]:
        return super().route({**weights, "bias": torch.zeros_like(weights["bias"])}, x)


# These two move logits by less than three times the default path's own error in bf16, of which sqrt(5) times is allowed.
@fault("router-bias-in-shares", "the correction bias takes part in the experts' shares, too (sglang 8040)", shown="float32")
class RouterBiasInShares(SpecializedForms):  # noqa: D101
    def route(self, weights: Weights, x: Tensor) -> tuple[Tensor, Tensor]:
        biased = torch.sigmoid(self.router_logits(x, weights["router"])) + weights["bias"].float()
        share, chosen = biased.topk(self.d.top_k, -1)
        return chosen, share / share.sum(-1, keepdim=True) * self.d.routed_scaling


@fault("expert-of-neighbour", "one expert of each layer runs with the next one's weights", shown="float32")
class ExpertOfNeighbour(SpecializedForms):  # noqa: D101
    def experts(self, weights: Weights, latent: Tensor, chosen: Tensor) -> Tensor:
        return super().experts(weights, latent, torch.where(chosen == 3, 4, chosen))


@fault("shared-experts-of-layer-before", "the side stream is not waited for: the shared experts' rows are the layer's before")
class SharedOfLayerBefore(SpecializedForms):  # noqa: D101
    before: Tensor | None = None

    def shared(self, weights: Weights, x: Tensor) -> Tensor:
        before, self.before = self.before, super().shared(weights, x)
        return self.before if before is None or before.shape != self.before.shape else before


@fault("stale-mailbox", "a rank's slot is not armed again: its partial row is one of the layer before, in one row of one rank")
class StaleMailbox(SpecializedForms):  # noqa: D101
    before: Tensor | None = None

    def o_proj(self, weight: Tensor, local: Tensor) -> Tensor:
        stale, self.before = self.before, local
        if stale is not None and stale.shape == local.shape:
            local = local.clone()
            local[-1, -local.shape[1] // 4 :] = stale[-1, -local.shape[1] // 4 :]
        return super().o_proj(weight, local)


@fault("rows-beyond-a-tile", "rows from 16 on of a projection read the tile's first rows: only in batches of more than 16")
class RowsBeyondATile(SpecializedForms):  # noqa: D101
    def project(self, x: Tensor, weight: Tensor) -> Tensor:
        return super().project(x, weight)[torch.arange(len(x)) % 16]


@fault("block-residual-late", "a block of the residual stream is read one layer after it was written")
class BlockResidualLate(SpecializedForms):  # noqa: D101
    def attn_res(self, norms: tuple[Tensor, Tensor, Tensor], prefix: Tensor, blocks: list[Tensor]) -> Tensor:
        return super().attn_res(norms, prefix, blocks[:-1] if len(blocks) > 1 else blocks)


@fault(
    "logits-scaled",
    "all logits 1 % too large: no greedy token changes, and bfloat16's rounding of logits hides it",
    shown="float32",
)
class LogitsScaled(SpecializedForms):  # noqa: D101
    def logits(self, hidden: Tensor, head: Tensor) -> Tensor:
        return super().logits(hidden, head) * 1.01


@fault(
    "logits-of-neighbour", "hidden rows gathered with an index of the step before: the last two requests' swapped, now and then"
)
class LogitsOfNeighbour(SpecializedForms):  # noqa: D101
    steps = 0

    def logits(self, hidden: Tensor, head: Tensor) -> Tensor:
        self.steps += 1
        if self.steps % 50 == 0 and len(hidden) > 1:
            hidden = torch.cat([hidden[:-2], hidden[-2:].flip(0)])
        return super().logits(hidden, head)


@fault("nan-in-one-request", "NaN in one row's logits, once (vLLM 37442, 42426)")
class NanInOneRequest(SpecializedForms):  # noqa: D101
    steps = 0

    def logits(self, hidden: Tensor, head: Tensor) -> Tensor:
        logits = super().logits(hidden, head)
        self.steps += 1
        if self.steps == 40:
            logits[-1] = float("nan")
        return logits


@fault("nan-kept-in-state", "NaN in one state: every later token of the request, and whoever gets its slot (vLLM 51039)")
class NanKeptInState(SpecializedForms):  # noqa: D101
    stores = 0

    def kda_store(self, state: Tensor, slots: Tensor, value: Tensor) -> None:
        super().kda_store(state, slots, value)
        self.stores += 1
        if self.stores == 200:
            state[slots[-1], 0, 0, 0] = float("nan")
