"""The projection into the experts' latent space as each path computes it: all ranks of a TP group."""

import torch
from torch import Tensor

from validate.model.call import Call
from validate.paths.emulated.arithmetic import gemm
from validate.paths.emulated.front import front_gemm, lane_dot, uses_small_batch
from validate.paths.emulated.mailbox import poll

BF16 = torch.bfloat16


class DefaultLatentDown:
    """Every rank computes all rows (vLLM 0.33.0, models/kimi_k3/nvidia/model.py: ``ReplicatedLinear``)."""

    def __call__(self, call: Call) -> None:
        """Runs the stage; ``reference.latent_down.reference`` says what the tensors are."""
        self.tp, self.regime = call.shape["tp"], call.shape["regime"]
        latent = self.latent(call.inputs["x"], call.inputs["weight"])
        for rank in range(self.tp):
            call.outputs["out"][rank] = self.latent_of(latent, rank)

    def latent(self, x: Tensor, weight: Tensor) -> Tensor:
        """bf16 [rows, 3584]."""
        return gemm(x, weight).to(BF16)

    def latent_of(self, latent: Tensor, rank: int) -> Tensor:
        """What a rank hands to its experts."""
        return latent


class SpecializedLatentDown(DefaultLatentDown):
    """Each rank computes its share of the channels and multicasts it to all.

    vLLM 0.33.0, specialized_decode/cutedsl/gemm/ws_gemm.py, small batches small_batch/front_tp8.py and front_tp16.py.
    The mailbox's sentinel is a pair of +0 and -0, so no -0 is published.
    """

    def latent(self, x: Tensor, weight: Tensor) -> Tensor:
        """bf16 [rows, 3584]: the ranks' shards, one after the other, NaN where the reader would wait for ever."""
        shards = self.gather([self.shard(x, part, rank) for rank, part in enumerate(weight.chunk(self.tp))])
        return torch.cat([poll(shard).to(BF16) for shard in shards], 1)

    def gather(self, shards: list[Tensor]) -> list[Tensor]:
        """The shards as they lie in the mailbox."""
        return shards

    def shard(self, x: Tensor, weight: Tensor, rank: int) -> Tensor:
        """bf16 [rows, 3584 / tp]: what a rank publishes."""
        return self.published(self.product(x, weight))

    def product(self, x: Tensor, weight: Tensor) -> Tensor:
        """fp32 sums. Small batches use scalar FMAs, the others the front's MMAs."""
        if uses_small_batch(self.tp, self.regime):
            return lane_dot(x, weight, self.regime)
        return front_gemm(x, weight, self.tp, self.regime)

    def published(self, value: Tensor) -> Tensor:
        """Rounded to bf16; adding +0 turns -0 into +0 and leaves every other number."""
        return value.to(BF16) + 0.0
