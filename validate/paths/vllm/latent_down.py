"""The projection into the experts' latent space by the specialized path's own kernels, over all ranks."""

import torch

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.paths.vllm.front import Front, Layer
from validate.paths.vllm.front_adapter import FrontOverRanks


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
