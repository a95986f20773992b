"""The DSpark drafter's context as both paths compute it: their drafter is the same."""

from typing import Any

import torch
from torch import Tensor

from validate.model.call import Call
from validate.paths.emulated.arithmetic import fma, gemm
from validate.paths.emulated.final_norm import DefaultFinalNorm
from validate.paths.emulated.mla import E4M3, e4m3

BF16 = torch.bfloat16
Inputs = dict[str, Any]


class DraftContext(DefaultFinalNorm):
    """Two linear layers by a library; norms that round before their weight; a rotation in fp32; rows through bf16 to E4M3.

    vLLM 0.33.0, models/kimi_k3/nvidia/dspark_mla.py; its operators are compiled, see ``reference.draft_context``.
    """

    def __call__(self, call: Call) -> None:
        """Runs the stage; ``reference.draft_context.reference`` says what the tensors are."""
        i, cache = dict(call.inputs), call.buffers["cache"]
        layers, width = i["kv_norm"].shape
        context = self.combine(i)
        call.outputs["context"].copy_(context)
        by_layer = self.project(context, i["kv_proj"]).unflatten(1, (layers, -1)).transpose(0, 1)
        latent = self.latent(by_layer, self.latent_weights(i["kv_norm"]), i["eps"])
        rest = self.rotate(by_layer[..., width:].float(), i["table"][self.positions(i, layers)])
        row = self.stored(torch.cat([latent, self.round_rotated(rest)], -1), i, cache.dtype)
        for layer, slots in enumerate(self.slots(i, layers)):
            written = self.written(slots).nonzero()[:, 0]
            cache[layer].flatten(0, 1)[slots[written]] = row[layer, written]

    def combine(self, i: Inputs) -> Tensor:
        """bf16 [tokens, hidden]: the target's states in the drafter's space."""
        return self.normalise(self.project(i["states"], i["context_proj"]).float(), i["context_norm"].float(), i["eps"])

    def project(self, x: Tensor, weight: Tensor) -> Tensor:
        """A bf16 linear layer."""
        return gemm(x, weight).to(BF16)

    def latent(self, by_layer: Tensor, weights: Tensor, eps: float) -> Tensor:
        """fp32 values of bf16 [layers, tokens, 512]: each layer's norm of its latent."""
        return self.normalise(by_layer[..., : weights.shape[1]].float(), weights[:, None].float(), eps).float()

    def latent_weights(self, weights: Tensor) -> Tensor:
        """[layers, 512]: each layer's norm weight."""
        return weights

    def positions(self, i: Inputs, layers: int) -> Tensor:
        """[layers, tokens]: where each row's token is."""
        return i["positions"].expand(layers, -1)

    def rotate(self, rest: Tensor, table: Tensor) -> Tensor:
        """fp32 [layers, tokens, 64]: neighbouring channels rotated by their frequency's angle; table [layers, tokens, 64]."""
        cosine, sine = table.chunk(2, -1)
        even, odd = rest[..., 0::2], rest[..., 1::2]
        return torch.stack([fma(even, cosine, -(odd * sine)), fma(odd, cosine, even * sine)], -1).flatten(-2)

    def round_rotated(self, rest: Tensor) -> Tensor:
        """As the rotation leaves it: bf16."""
        return rest.to(BF16).float()

    def stored(self, row: Tensor, i: Inputs, dtype: torch.dtype) -> Tensor:
        """[layers, tokens, 576] in the cache's dtype."""
        return e4m3(self.scaled(row, i["scales"])) if dtype == E4M3 else row.to(dtype)

    def scaled(self, row: Tensor, scales: Tensor) -> Tensor:
        """Each layer's rows in units of its scale."""
        return row / scales[:, None, None]

    def slots(self, i: Inputs, layers: int) -> Tensor:
        """[layers, tokens]: where each row goes."""
        slots: Tensor = i["slots"]
        return slots if slots.dim() == 2 else slots.expand(layers, -1)

    def written(self, slots: Tensor) -> Tensor:
        """[tokens]: which rows are."""
        return slots >= 0
