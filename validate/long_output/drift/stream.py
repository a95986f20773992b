"""The inputs of a long output: what the recurrence gets at each step, in blocks of steps that are drawn on their own."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from validate.long_output.drift.heads import HEADS, Heads, heads
from validate.model.dimensions import K3
from validate.model.draws import Draws
from validate.model.synthetic import activation, gate_logits

STEPS = 128  # of a block
REQUESTS = 2  # decoded together, each with a slot of its own
VALUES = 2  # rows of a head's state: they never mix
KEYS = K3.head_dim
CHANNELS = HEADS * (2 * KEYS + VALUES)  # of the convolution: queries, keys, values
OPEN = 4.0  # largest logit of a write gate before it is shifted: one saturated gate would wipe a slow head


@dataclass(frozen=True)
class Block:
    """Inputs of ``STEPS`` steps: ``x`` [steps, requests, CHANNELS] bf16, before the convolution; ``gate`` [steps, requests,
    HEADS * KEYS] fp32 with bf16 values, projected; ``beta`` [steps, requests, HEADS] bf16.
    """

    x: Tensor
    gate: Tensor
    beta: Tensor


class Stream:
    """The inputs of one seed. ``inputs`` holds the parameters under ``reference.kda``'s names."""

    def __init__(self, seed: int) -> None:
        draws = Draws("drift", seed)
        self.seed = seed
        self.heads: Heads = heads(draws)
        self.inputs: dict[str, Any] = {
            "a_log": self.heads.a_log,
            "dt_bias": self.heads.dt_bias,
            "conv_weight": draws.bell((CHANNELS, K3.conv_width), 0.5).bfloat16().float(),
            "norm": torch.ones(KEYS),  # its length is asked for
            "lower_bound": K3.gate_lower_bound,
            "l2_eps": K3.l2_eps,
            "slots": torch.arange(1, REQUESTS + 1, dtype=torch.int32)[:, None],
            "accepted": torch.ones(REQUESTS, dtype=torch.int32),
        }

    def block(self, number: int) -> Block:
        """Steps ``number * STEPS + 1`` and on."""
        draws = Draws("drift", self.seed, number)
        rows = STEPS * REQUESTS
        logits = gate_logits(draws, (rows, HEADS)).double().clamp(-OPEN, OPEN) - self.heads.beta_shift
        return Block(
            activation(draws, rows, CHANNELS).view(STEPS, REQUESTS, CHANNELS),
            draws.bell((rows, HEADS * KEYS)).bfloat16().float().view(STEPS, REQUESTS, -1),
            logits.bfloat16().view(STEPS, REQUESTS, HEADS),
        )


def windows(taps: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """The convolution's windows [steps * requests, channels, 4] of ``x`` [steps, requests, channels] after ``taps`` [requests,
    channels, 3], and the next block's taps.
    """
    every = torch.cat([taps, x.permute(1, 2, 0)], 2)
    return every.unfold(2, 4, 1).permute(2, 0, 1, 3).flatten(0, 1), every[:, :, -3:].clone()


def split(activated: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Queries and keys [steps, requests, HEADS, KEYS] and values [..., VALUES] of [steps * requests, CHANNELS]."""
    width = HEADS * KEYS
    parts = activated.view(-1, REQUESTS, CHANNELS).split((width, width, HEADS * VALUES), -1)
    query, key, value = (part.unflatten(-1, (HEADS, -1)) for part in parts)
    return query, key, value
