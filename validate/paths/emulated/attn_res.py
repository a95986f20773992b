"""Attention residuals as each path computes them, one rank."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from validate.model.call import Call
from validate.paths.emulated import row_sums
from validate.paths.emulated.arithmetic import chain_sum, exp, fma
from validate.paths.emulated.final_norm import DefaultFinalNorm, SpecializedFinalNorm, reciprocal_rms
from validate.paths.emulated.mailbox import arm, poll

BF16 = torch.bfloat16
Inputs = Mapping[str, Any]
TILE = 4  # sources that the Triton kernel loads at a time, from two saved blocks on


class DefaultAttnRes:
    """vLLM's Triton kernel: one program a row, an online softmax over tiles of sources (vLLM 0.33.0, ops/attn_res.py).

    On GB300 the default is a compiled kernel of the same equations, whose source is not in the wheel.
    """

    def __call__(self, call: Call) -> None:
        """Runs the stage; ``reference.attn_res.reference`` says what the tensors are."""
        i, s = call.inputs, call.shape
        rows = s["batch"]
        prefix, blocks = call.buffers["prefix"][:rows], call.buffers["blocks"][:rows]
        delta = self.delta(call, rows)
        updated = self.update(prefix, delta, bool(s["add"]))
        sources = self.sources(blocks, updated, s["blocks"])
        prefix.copy_(updated)
        if "aux" in call.outputs:
            call.outputs["aux"].copy_(self.stream(updated, delta))
        if s["write"] >= 0:
            self.write(blocks, s["write"], updated.to(BF16))
        self.fused = bool(s.get("fused"))
        weight = i["norm"].float() * i["query"].float()  # bf16 products are exact
        combine = self.combine_final if s["final"] else self.combine
        call.outputs["out"].copy_(combine(sources, weight, i))

    def delta(self, call: Call, rows: int) -> Tensor:
        """fp32 [rows, hidden]: the sub-layer's output.

        The default path has it from an all-reduce, which adds the parts up and rounds as the mailbox's reader does;
        here it empties the mailbox, too, so that both paths leave the same.
        """
        if call.inputs["delta"] is not None:
            return call.inputs["delta"].float()
        total = self.gather(self.read(call.buffers["mailbox"][:, :rows]))
        for slot in call.buffers["mailbox"]:
            self.rearm(slot, rows)
        return total

    def read(self, slots: Tensor) -> Tensor:
        """fp32 contents of published slots."""
        return poll(slots)

    def gather(self, parts: Tensor) -> Tensor:
        """Parts [slots, rows, hidden] in the order of the slots; a single one is taken as it is."""
        total = chain_sum(parts)
        return total.to(BF16).float() if len(parts) > 1 else total

    def rearm(self, slots: Tensor, rows: int) -> None:
        """The reader's duty for the rows that it read. slots [capacity, hidden]."""
        arm(slots[:rows])

    def update(self, prefix: Tensor, delta: Tensor, add: bool) -> Tensor:
        """fp32 [rows, hidden]: the new prefix, rounded to bf16."""
        return (prefix.float() + delta if add else delta).to(BF16).float()

    def sources(self, blocks: Tensor, prefix: Tensor, saved: int) -> Tensor:
        """fp32 [rows, saved + 1, hidden]."""
        return torch.cat([blocks[:, :saved].float(), prefix[:, None]], 1)

    def stream(self, prefix: Tensor, delta: Tensor) -> Tensor:
        """The auxiliary stream for the drafter: the prefix before any norm."""
        return prefix

    def write(self, blocks: Tensor, index: int, prefix: Tensor) -> None:
        """Saves the new prefix as a block."""
        blocks[:, index] = prefix

    def combine(self, sources: Tensor, weight: Tensor, i: Inputs) -> Tensor:
        """bf16 [rows, hidden]: mixture and norm."""
        mixture = self.mix(sources, weight, i["eps"])
        rstd = torch.rsqrt(self.sum(mixture, mixture, sources) / mixture.shape[-1] + i["out_eps"])
        return (mixture * rstd[:, None] * i["out_norm"].float()).to(BF16)

    def combine_final(self, sources: Tensor, weight: Tensor, i: Inputs) -> Tensor:
        """bf16 [rows, hidden]: the mixture, then the model's final norm."""
        mixture = self.round_final(self.mix(sources, weight, i["eps"]))
        return DefaultFinalNorm().normalise(mixture, i["out_norm"].float(), i["out_eps"])

    def mix(self, sources: Tensor, weight: Tensor, eps: float) -> Tensor:
        """fp32 [rows, hidden]: softmax mixture, rescaled from tile to tile."""
        if sources.shape[1] == 1:
            return sources[:, 0]
        logits = self.logits(sources, weight, eps)
        tile = TILE if sources.shape[1] > 2 else 1
        maximum = torch.full((len(sources), 1), -torch.inf)
        total, mixture = torch.zeros(len(sources), 1), torch.zeros(len(sources), sources.shape[-1])
        for part, score in zip(sources.split(tile, 1), logits.split(tile, 1), strict=True):
            new = torch.maximum(maximum, score.max(1, keepdim=True).values)
            old, scale = exp(maximum - new), exp(score - new)
            total = total * old + chain_sum(scale.T)[:, None]
            mixture = mixture * old + chain_sum((scale[..., None] * part).transpose(0, 1))
            maximum = new
        return mixture / total

    def logits(self, sources: Tensor, weight: Tensor, eps: float) -> Tensor:
        """fp32 [rows, n]."""
        rstd = torch.rsqrt(self.sum(sources, sources, sources) / sources.shape[-1] + eps)
        return self.sum(sources, weight.expand_as(sources), sources) * rstd

    def sum(self, x: Tensor, y: Tensor, sources: Tensor) -> Tensor:
        """Products over the hidden dimension. The kernel has eight warps from two saved blocks on, else four."""
        return row_sums.triton(x, y, 8 if sources.shape[1] > 2 else 4)

    def round_final(self, mixture: Tensor) -> Tensor:
        """The final form passes the mixture on in bf16."""
        return mixture.to(BF16).float()


class SpecializedAttnRes(DefaultAttnRes):
    """Seven thread blocks a row, 1024 columns each (vLLM 0.33.0, specialized_decode/cutedsl/attn_res/kernel.py).

    The saved blocks are mixed before the delta arrives; the prefix then joins with a rescaling. The output's norm
    comes from the squares and the product of the two parts, not from the mixture. ``fused`` is the form before the
    MLP, part of the output projection's consumer (oproj/consumer.py): the same steps with sums in another order.
    """

    def combine(self, sources: Tensor, weight: Tensor, i: Inputs) -> Tensor:
        """bf16 [rows, hidden]: blocks first, then the prefix and the norm together."""
        gamma, prefix = i["out_norm"].float(), sources[:, -1]
        own = self.row_sum(prefix, prefix)
        if sources.shape[1] == 1:
            return (prefix * self.rstd(own, prefix, i["out_eps"]) * gamma).to(BF16)
        maximum, total, mixture = self.mix_saved(sources[:, :-1], weight, i["eps"])
        alpha, beta, total = self.join(maximum, total, prefix, weight, own, i["eps"])
        cross, squares = self.row_sum(mixture, prefix), self.row_sum(mixture, mixture)
        quad = self.quad(alpha, beta, squares, cross, own)
        rstd = self.rstd(quad, prefix, self.scaled_eps(i["out_eps"], total))
        return (self.blend(alpha[:, None] * rstd, mixture, beta[:, None] * rstd, prefix) * gamma).to(BF16)

    def combine_final(self, sources: Tensor, weight: Tensor, i: Inputs) -> Tensor:
        """bf16 [rows, hidden]: the mixture, then the model's final norm in the same kernel."""
        prefix = sources[:, -1]
        maximum, total, mixture = self.mix_saved(sources[:, :-1], weight, i["eps"])
        own = self.row_sum(prefix, prefix)
        alpha, beta, total = self.join(maximum, total, prefix, weight, own, i["eps"])
        inverse = 1 / total
        mixture = self.blend((alpha * inverse)[:, None], mixture, (beta * inverse)[:, None], prefix)
        return SpecializedFinalNorm().normalise(self.round_final(mixture), i["out_norm"].float(), i["out_eps"])

    def mix_saved(self, blocks: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        """Largest logit [rows], sum of exponentials [rows] and their mixture [rows, hidden] of the saved blocks."""
        squares, dots = self.saved_sum(blocks, blocks), self.saved_sum(blocks, weight.expand_as(blocks))
        logits = dots * self.rstd(squares, blocks, eps)[..., 0]
        maximum = logits.amax(1)
        shares = exp(logits - maximum[:, None])
        mixture = torch.zeros_like(blocks[:, 0])
        for n in range(blocks.shape[1]):
            mixture = fma(shares[:, n, None], blocks[:, n], mixture)
        return maximum, self.total(shares), mixture

    def total(self, shares: Tensor) -> Tensor:
        """Sum of the exponentials [rows, n]: in order; in the fused form by pairs."""
        if not self.fused:
            return chain_sum(shares.T)
        parts = list(shares.unbind(1))
        for stride in (1, 2, 4):
            for n in range(0, len(parts) - stride, 2 * stride):
                parts[n] = parts[n] + parts[n + stride]
        return parts[0]

    def join(
        self, maximum: Tensor, total: Tensor, prefix: Tensor, weight: Tensor, own: Tensor, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The prefix enters the softmax: scales of the mixture and of the prefix, and the denominator, [rows] each."""
        logit = self.row_sum(prefix, weight.expand_as(prefix)) * self.rstd(own, prefix, eps)[:, 0]
        top = torch.maximum(maximum, logit)
        alpha, beta = exp(maximum - top), exp(logit - top)
        return alpha, beta, fma(alpha, total, beta)

    def quad(self, alpha: Tensor, beta: Tensor, squares: Tensor, cross: Tensor, own: Tensor) -> Tensor:
        """Sum of squares [rows] of ``alpha * mixture + beta * prefix`` from its three terms."""
        return fma(alpha * alpha, squares, fma(2 * alpha * beta, cross, beta * beta * own))

    def scaled_eps(self, eps: float, total: Tensor) -> Tensor:
        """The epsilon for a mixture that is not divided by its denominator, [rows]."""
        return eps * total * total

    def rstd(self, squares: Tensor, row: Tensor, eps: float | Tensor) -> Tensor:
        """fp32 [..., 1]: one over the root mean square of a row."""
        return reciprocal_rms(squares, row.shape[-1], eps)

    def blend(self, alpha: Tensor, mixture: Tensor, beta: Tensor, prefix: Tensor) -> Tensor:
        """fp32 ``alpha * mixture + beta * prefix``."""
        return fma(alpha.expand_as(mixture), mixture, beta * prefix)

    def saved_sum(self, x: Tensor, y: Tensor) -> Tensor:
        """Products over the hidden dimension, before the prefix is known: threads, warps, blocks of the cluster."""
        if not self.fused:
            return self.over_blocks(row_sums.pairs(row_sums.warp_sums(x, y)))
        warps = row_sums.warp_sums(x, y, row_sums.paired_chains)
        return self.over_blocks(chain_sum(warps.movedim(-1, 0)))

    def row_sum(self, x: Tensor, y: Tensor) -> Tensor:
        """Products over the hidden dimension, with the prefix. The fused form adds up the blocks first."""
        if not self.fused:
            return self.over_blocks(row_sums.pairs(row_sums.warp_sums(x, y)))
        return row_sums.pairs(chain_sum(row_sums.warp_sums(x, y, row_sums.paired_chains).movedim(-2, 0)))

    def over_blocks(self, blocks: Tensor) -> Tensor:
        """Sum over the cluster's thread blocks (last dimension)."""
        return row_sums.even_and_odd(blocks)
