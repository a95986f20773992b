"""What the two kinds of vLLM's MoE front have in common here (vLLM 0.33.0): which experts a row goes to, and its latent.

Of small batches one kernel does both (``small_front``), of others a pair (``shared_front``).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from validate.model.call import Call
from validate.model.dimensions import K3

UNWRITTEN = -1  # int32 word of two bf16 NaN, or of an expert that is none: what a launch must write


@dataclass(frozen=True)
class Layer:
    """What a front takes of a layer; each rank finds its own rows in the weights of all ranks.

    ``gate`` bf16 [896, 7168], ``down`` bf16 [3584, 7168], ``bias`` fp32 [896], ``scaling`` of the routing weights.
    """

    gate: Tensor
    down: Tensor
    bias: Tensor
    scaling: float


class Front(Protocol):
    """A front of one rank. It holds its memory, too: CuTe's views do not. Its methods are those of ``Prepared``.

    After ``collect``, ``ids`` int32 and ``weights`` bf16 [rows, 16] and ``latent`` bf16 [rows, 3584] hold the prepared rows.
    """

    mailboxes: tuple[Tensor, ...]
    ids: Tensor
    weights: Tensor
    latent: Tensor

    def launch(self) -> None:
        """Runs the kernels of this rank."""

    def arm(self) -> None:
        """Brings the memory of this rank into the state in which a step finds it."""

    def collect(self) -> None:
        """Checks, once all ranks' launches have ended, what they left in this rank's memory: Broken."""


def padded_rows(call: Call) -> Tensor:
    """bf16 [regime, 7168] for the call's rows. Those after them are a graph's padding, of no request: NaN."""
    x = call.inputs["x"]
    return torch.full((call.shape["regime"], K3.hidden), float("nan"), dtype=x.dtype, device=x.device)


def words(tensor: Tensor) -> Tensor:
    """A tensor's memory as int32 words."""
    return tensor.view(torch.int32)


def fill(areas: Iterable[tuple[Tensor, int]]) -> None:
    """Fills each area with its word."""
    for area, word in areas:
        words(area).fill_(word)
