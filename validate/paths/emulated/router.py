"""The router as each path computes it: all ranks of a TP group."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from validate.model.call import Call
from validate.paths.emulated.arithmetic import chain_sum, gemm, tree_sum
from validate.paths.emulated.front import front_gemm, uses_small_batch
from validate.paths.emulated.situ import sigmoid, tanh_approx

BF16 = torch.bfloat16
TINY = 1e-20


class DefaultRouter:
    """Every rank computes all experts: fp32 logits, then sigmoid, choice and weights in fp32.

    vLLM 0.33.0, models/kimi_k3/nvidia/model.py (``GateLinear`` with fp32 output) and grouped_topk_router.py. On SM100
    the choice is part of a compiled MoE kernel, which also rounds the weights to bf16.
    """

    def __call__(self, call: Call) -> None:
        """Runs the stage; ``reference.router.reference`` says what the tensors are."""
        i = call.inputs
        self.tp, self.regime = call.shape["tp"], call.shape["regime"]
        logits = self.logits(i["x"], i["gate"])
        for rank in range(self.tp):
            ids, weights = self.route(self.logits_of(logits, rank), i)
            call.outputs["ids"][rank] = ids.int()
            call.outputs["weights"][rank] = weights

    def logits(self, x: Tensor, gate: Tensor) -> Tensor:
        """fp32 [rows, experts]."""
        return gemm(x, gate)

    def logits_of(self, logits: Tensor, rank: int) -> Tensor:
        """The logits that a rank routes by."""
        return logits

    def route(self, logits: Tensor, i: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
        """Ids int64 and weights bf16, [rows, top_k] each."""
        scores = self.sigmoid(logits)
        ids = self.select(self.biased(scores, i["bias"]), i["top_k"])
        weights = self.weights(self.picked(scores, ids, i), i["scaling"])
        return self.arranged(ids, weights)

    def sigmoid(self, logits: Tensor) -> Tensor:
        """The path's logistic function, fp32."""
        return sigmoid(logits)

    def biased(self, scores: Tensor, bias: Tensor) -> Tensor:
        """What the choice is made by."""
        return scores + bias

    def select(self, keys: Tensor, count: int) -> Tensor:
        """The ids of the largest keys in descending order, lower ids first among equal ones, NaN last."""
        keys = torch.where(keys.isnan(), -torch.inf, keys)
        return torch.sort(keys, dim=1, descending=True, stable=True).indices[:, :count]

    def picked(self, scores: Tensor, ids: Tensor, i: Mapping[str, Any]) -> Tensor:
        """The scores of the chosen experts, without the bias."""
        return scores.gather(1, ids)

    def weights(self, picked: Tensor, scaling: float) -> Tensor:
        """bf16 shares of the chosen scores."""
        total = chain_sum(picked.T)[:, None]
        return (picked * scaling / (total + TINY)).to(BF16)

    def arranged(self, ids: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Both in the order in which they are handed on."""
        return ids, weights


class SpecializedRouter(DefaultRouter):
    """Each rank computes its share of the experts and multicasts it; every rank then routes by all of them.

    vLLM 0.33.0, specialized_decode/cutedsl/moe/front.py (``WsGemm``, ``RouteSitu``); small batches (TP8 one row, TP16
    one or two) small_batch/front_tp8.py and front_tp16.py with ``Top16Fast``. The order of summation follows the
    regime.
    """

    def logits(self, x: Tensor, gate: Tensor) -> Tensor:
        """fp32 [rows, experts]: the ranks' shards, one after the other. A shard's rows do not depend on the others'."""
        shards = [self.shard(x, part, rank) for rank, part in enumerate(gate.chunk(self.tp))]
        return torch.cat(shards, 1)

    def shard(self, x: Tensor, gate: Tensor, rank: int) -> Tensor:
        """fp32 [rows, experts / tp]: what a rank publishes."""
        return front_gemm(x, gate, self.tp, self.regime)

    def sigmoid(self, logits: Tensor) -> Tensor:
        """One row at TP8 takes ``0.5 * tanh.approx(x / 2) + 0.5``; the others an accurate exp and division."""
        if self.tp == 8 and self.regime == 1:
            return 0.5 * tanh_approx(0.5 * logits) + 0.5
        return sigmoid(logits)

    def weights(self, picked: Tensor, scaling: float) -> Tensor:
        """A butterfly sums the 16 scores. The TP16 small batch scales after the division, the others before it."""
        total = tree_sum(picked)[:, None] + TINY
        if self.tp == 16 and uses_small_batch(self.tp, self.regime):
            return (picked / total * scaling).to(BF16)
        return (picked * scaling / total).to(BF16)
