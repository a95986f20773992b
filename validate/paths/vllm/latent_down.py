"""The projection into the experts' latent space by vLLM's own kernels.

Default: a linear layer that every rank has whole; specialized: the front's kernels, over all ranks.
"""

import torch

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.paths.vllm.adapter import Prepared, Whole
from validate.paths.vllm.framework import linear, linear_note, notes, stored
from validate.paths.vllm.front import Front, Layer
from validate.paths.vllm.front_adapter import FrontOverRanks
from validate.paths.vllm.source import Source


class DefaultLatentDown(Whole):
    """``routed_expert_down_proj`` of ``KimiMoE`` (vLLM 0.33.0, models/kimi_k3/nvidia/model.py), a replicated layer."""

    step = ("x",)

    def missing(self, call: Call, source: Source) -> str | None:
        """Nothing."""
        return None

    def note(self, call: Call) -> str | None:
        """All ranks run the same kernel on the same tensors."""
        return notes("one rank for all", linear_note(call.shape["batch"]))

    def prepare(self, call: Call, source: Source) -> Prepared:
        """``reference.latent_down.reference`` says what the tensors are."""
        x, weight, out = call.inputs["x"], call.inputs["weight"], call.outputs["out"]
        return stored(out, lambda: linear(source, x, weight).expand_as(out))


class LatentDownOverRanks(FrontOverRanks):
    """The front's kernels of all ranks. SM100 and later."""

    def layer(self, call: Call) -> Layer:
        """The gate is made of the latent's weight; no biases."""
        weight = call.inputs["weight"]
        bias = torch.zeros(K3.experts, device=weight.device)
        return Layer(-weight[: K3.experts], weight, bias, K3.routed_scaling)

    def read(self, front: Front, call: Call) -> None:
        """What this rank hands to its experts."""
        call.outputs["out"][0].copy_(front.latent[: call.shape["batch"]])
