"""Shared experts as each path computes them, one rank."""

from itertools import pairwise

import torch
from torch import Tensor

from validate.model.call import Call
from validate.paths.emulated import situ
from validate.paths.emulated.arithmetic import chain_sum, gemm, tree_sum

BF16 = torch.bfloat16


class DefaultSharedExperts:
    """Two bf16 linear layers, ``SituAndMul`` between them (vLLM 0.33.0, models/kimi_k3/nvidia/model.py ``KimiMLP``)."""

    def __call__(self, call: Call) -> None:
        """Runs the stage; ``reference.shared_experts.reference`` says what the tensors are."""
        i, partial = call.inputs, call.outputs["partial"]
        gate, up = self.gate_up(i["x"], i["gate_up"], call).to(BF16).float().chunk(2, -1)
        hidden = self.round_hidden(self.activate(gate, up, i["beta"], i["linear_beta"]))
        partial.copy_(self.down(hidden, i["down"], call)[: partial.shape[0]].to(BF16))

    def gate_up(self, x: Tensor, weight: Tensor, call: Call) -> Tensor:
        """fp32 [rows, 2 * width]: gate, then up."""
        return gemm(x, weight)

    def activate(self, gate: Tensor, up: Tensor, beta: float, linear_beta: float) -> Tensor:
        """fp32 [rows, width]: the path's form of SiTU."""
        return situ.exact(gate, up, beta, linear_beta)

    def round_hidden(self, hidden: Tensor) -> Tensor:
        """The activation as the down projection reads it."""
        return hidden.to(BF16).float()

    def down(self, hidden: Tensor, weight: Tensor, call: Call) -> Tensor:
        """fp32 [rows, hidden]."""
        return gemm(hidden, weight)


class SpecializedSharedExperts(DefaultSharedExperts):
    """Small batches' own kernels, a split-K chain to 8 rows, ``SharedUmma`` above (vLLM 0.33.0,
    specialized_decode/cutedsl/moe).

    At one row of TP8 gate and up are looked up in tables over all bf16, which hold what ``situ`` gives; at TP16's one
    and two rows reciprocals replace its divisions. All round gate, up, the activation and the partial to bf16.
    """

    @staticmethod
    def missing(call: Call) -> str | None:
        """The kernels exist at two sizes."""
        return None if call.shape["tp"] in (8, 16) else "the specialized path needs 8 or 16 ranks"

    def __call__(self, call: Call) -> None:
        """Runs the stage in the regime of the call."""
        tp, regime = call.shape["tp"], call.shape["regime"]
        self.small = regime == 1 if tp == 8 else regime <= 2
        self.form = situ.reciprocal if self.small and tp == 16 else situ.exact
        super().__call__(call)

    def activate(self, gate: Tensor, up: Tensor, beta: float, linear_beta: float) -> Tensor:
        """fp32 [rows, width]: the regime's form of SiTU."""
        return self.form(gate, up, beta, linear_beta)

    def gate_up(self, x: Tensor, weight: Tensor, call: Call) -> Tensor:
        """K split over 16 warps, 4 blocks of the chain or the cluster of ``SharedUmma``; parts added in order."""
        tp, regime = call.shape["tp"], call.shape["regime"]
        if self.small:
            parts = 16
        elif regime <= 8:
            parts = 4
        elif regime > (40 if tp == 8 else 32):  # with the router's rows in the same kernel (front.py MERGED)
            parts = 4 if tp == 8 else 6
        else:
            parts = 120 // (2 * (6144 // tp) // 64)
        # Parts are counted in blocks of 64 columns, which may not divide evenly (primitives.py split).
        blocks = x.shape[1] // 64
        edges = [64 * (blocks * part // parts) for part in range(parts + 1)]
        spans = [slice(*span) for span in pairwise(edges)]
        return chain_sum(torch.stack([gemm(x[:, s], weight[:, s]) for s in self.used_spans(spans)]))

    def used_spans(self, spans: list[slice]) -> list[slice]:
        """K parts in their order of addition."""
        return spans

    def down(self, hidden: Tensor, weight: Tensor, call: Call) -> Tensor:
        """One chain of MMAs; in the small kernels 32 lanes sum four columns in every 128 and meet in a butterfly."""
        if not self.small:
            return gemm(hidden, weight)
        lanes = torch.arange(weight.shape[1]).view(-1, 32, 4).transpose(0, 1).flatten(1)
        return tree_sum(torch.stack([gemm(hidden[:, c], weight[:, c]) for c in lanes], -1))
