"""Attention residuals as each path computes them, one rank."""

import torch
from torch import Tensor

from validate.model.call import Call
from validate.paths.emulated.arithmetic import chain_sum, exp, fma, tree_sum
from validate.paths.emulated.mailbox import arm, poll

BF16 = torch.bfloat16
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
            call.outputs["aux"].copy_(self.stream(updated, sources))
        if s["write"] >= 0:
            blocks[:, s["write"]] = updated.to(BF16)
        out = self.combine(sources, i["norm"].float() * i["query"].float(), call)
        call.outputs["out"].copy_(out)

    def delta(self, call: Call, rows: int) -> Tensor:
        """fp32 [rows, hidden]: the sub-layer's output. The default path has it from an all-reduce: parts are added and rounded."""
        if call.inputs["delta"] is not None:
            return call.inputs["delta"].float()
        parts = call.buffers["mailbox"][:, :rows]
        total = self.gather(parts)
        for slot in call.buffers["mailbox"]:
            self.rearm(slot, rows)
        return total

    def gather(self, parts: Tensor) -> Tensor:
        """Parts [slots, rows, hidden] in the order of the slots; a single one is taken as it is."""
        total = chain_sum(poll(parts))
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

    def stream(self, prefix: Tensor, sources: Tensor) -> Tensor:
        """The auxiliary stream for the drafter: the prefix before any norm."""
        return prefix

    def combine(self, sources: Tensor, weight: Tensor, call: Call) -> Tensor:
        """bf16 [rows, hidden]: mixture and norm."""
        i = call.inputs
        mixture = self.mix(sources, weight, i["eps"]) if sources.shape[1] > 1 else sources[:, 0]
        if call.shape["final"]:
            mixture = self.round_final(mixture)
        return self.normalise(mixture, i["out_norm"].float(), i["out_eps"])

    def mix(self, sources: Tensor, weight: Tensor, eps: float) -> Tensor:
        """fp32 [rows, hidden]: softmax mixture, rescaled from tile to tile."""
        tile = TILE if sources.shape[1] > 2 else 1
        maximum = torch.full((len(sources), 1), -torch.inf)
        total, mixture = torch.zeros(len(sources), 1), torch.zeros(len(sources), sources.shape[-1])
        for part in sources.split(tile, 1):
            logits = self.logits(part, weight, eps)
            new = torch.maximum(maximum, logits.max(1, keepdim=True).values)
            old, scale = exp(maximum - new), exp(logits - new)
            total = total * old + scale.sum(1, keepdim=True)
            mixture = mixture * old + (scale[..., None] * part).sum(1)
            maximum = new
        return mixture / total

    def logits(self, sources: Tensor, weight: Tensor, eps: float) -> Tensor:
        """fp32 [rows, n]."""
        rstd = torch.rsqrt(self.sum(sources * sources) / sources.shape[-1] + eps)
        return self.sum(sources * weight) * rstd

    def sum(self, products: Tensor) -> Tensor:
        """Sum over the hidden dimension; Triton's is a tree over threads."""
        return products.sum(-1)

    def round_final(self, mixture: Tensor) -> Tensor:
        """The final form passes the mixture on in bf16."""
        return mixture.to(BF16).float()

    def normalise(self, mixture: Tensor, weight: Tensor, eps: float) -> Tensor:
        """bf16 RMSNorm of fp32 [rows, hidden]."""
        rstd = torch.rsqrt(self.sum(mixture * mixture) / mixture.shape[-1] + eps)
        return (mixture * rstd[:, None] * weight).to(BF16)


class SpecializedAttnRes(DefaultAttnRes):
    """Seven thread blocks a row, 1024 columns each (vLLM 0.33.0, specialized_decode/cutedsl/attn_res/kernel.py).

    The saved blocks are mixed before the delta arrives; the prefix then joins with a rescaling. The output's norm comes from
    the squares and the product of the two parts, not from the mixture.
    """

    def sum(self, products: Tensor) -> Tensor:
        """Eight columns a thread in order, then a warp's butterfly, four warps by pairs, the seven blocks as odd and even."""
        by_thread = products.unflatten(-1, (-1, 4, 32, 8))  # [..., block, warp, lane, column]
        total = torch.zeros(by_thread.shape[:-1])
        for column in range(8):
            total = total + by_thread[..., column]
        warps = tree_sum(total)
        by_block = (warps[..., 0] + warps[..., 1]) + (warps[..., 2] + warps[..., 3])
        parity = [chain_sum(by_block[..., start::2].movedim(-1, 0)) for start in (0, 1) if by_block.shape[-1] > start]
        return chain_sum(torch.stack(parity))

    def combine(self, sources: Tensor, weight: Tensor, call: Call) -> Tensor:
        """bf16 [rows, hidden]: blocks first, then the prefix and the norm together."""
        i = call.inputs
        gamma = i["out_norm"].float()
        blocks, prefix = sources[:, :-1], sources[:, -1]
        if not blocks.shape[1]:
            return self.normalise(prefix, gamma, i["out_eps"])
        logits = self.logits(blocks, weight, i["eps"])
        maximum = logits.max(1, keepdim=True).values
        mixture, total = torch.zeros_like(prefix), torch.zeros_like(maximum)
        for n in range(blocks.shape[1]):
            share = exp(logits[:, n : n + 1] - maximum)
            total = total + share
            mixture = fma(share, blocks[:, n], mixture)
        logit = self.logits(prefix[:, None], weight, i["eps"])
        top = torch.maximum(maximum, logit)
        alpha, beta = exp(maximum - top), exp(logit - top)
        total = fma(alpha, total, beta)
        if call.shape["final"]:
            mixture = fma(alpha / total, mixture, beta / total * prefix)
            return self.normalise(self.round_final(mixture), gamma, i["out_eps"])
        squares = self.squares(mixture, prefix, alpha, beta)
        scale = torch.rsqrt(fma(squares, torch.tensor(1 / prefix.shape[-1]), i["out_eps"] * total * total))
        return (fma(alpha * scale, mixture, beta * scale * prefix) * gamma).to(BF16)

    def squares(self, mixture: Tensor, prefix: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
        """fp32 [rows, 1]: the sum of squares of ``alpha * mixture + beta * prefix``, by its three terms."""
        cross, own = self.sum(mixture * prefix)[:, None], self.sum(prefix * prefix)[:, None]
        inner = fma(2 * alpha * beta, cross, beta * beta * own)
        return fma(alpha * alpha, self.sum(mixture * mixture)[:, None], inner)
