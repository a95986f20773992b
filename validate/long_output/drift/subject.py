"""A path's own recurrence on a stream: its functions, its rounding points, its order of summation."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from validate.long_output.drift.heads import HEADS
from validate.long_output.drift.stream import CHANNELS, KEYS, REQUESTS, STEPS, VALUES, Block, split, windows
from validate.paths.emulated.kda import DefaultKda, SpecializedKda

LANES = 8  # by which the specialized kernel sums a row of the state; 16 give the same bits


@dataclass(frozen=True)
class Prepared:
    """What a block's steps need that no step changes: ``activated`` [steps * requests, channels] is the convolution's output."""

    activated: Tensor
    decay: Tensor
    beta: Tensor
    query: Tensor
    key: Tensor
    value: Tensor


class Subject:
    """``path`` over one stream; ``state`` [1 + requests, HEADS, VALUES, KEYS] fp32, slot 0 never used, starts from zeros."""

    def __init__(self, name: str, path: DefaultKda, inputs: dict[str, Any]) -> None:
        self.name, self.path, self._inputs = name, path, inputs
        self.state = torch.zeros(1 + REQUESTS, HEADS, VALUES, KEYS)
        self.taps = torch.zeros(REQUESTS, CHANNELS, 3, dtype=torch.bfloat16)
        self.attended = torch.zeros(REQUESTS, HEADS, VALUES)
        self._slots = inputs["slots"][:, 0].tolist()

    def prepare(self, block: Block) -> Prepared:
        """The block's decays, write gates, queries, keys and values as the path computes them."""
        i = self._inputs
        window, self.taps = windows(self.taps, block.x)
        activated = self.path.convolve(window, i["conv_weight"])
        query, key, value = split(activated)
        return Prepared(
            activated,
            self.path.decay(block.gate.flatten(0, 1), i).view(STEPS, REQUESTS, HEADS, KEYS),
            self.path.sigmoid(block.beta.float()),
            self.path.unit(query, i["l2_eps"]) * KEYS**-0.5,
            self.path.unit(key, i["l2_eps"]),
            value,
        )

    def step(self, prepared: Prepared, n: int) -> None:
        """The block's step ``n``: from each request's slot, through the path's step, to the slot again."""
        i, p = self._inputs, prepared
        current = self.state[self.path.start_slots(i["slots"], i["accepted"])]
        new, self.attended = self.path.step(current, p.decay[n], p.beta[n], p.query[n], p.key[n], p.value[n])
        for request, slot in enumerate(self._slots):
            self.path.store(self.state, slot, new[request])

    def kept(self) -> dict[str, Any]:
        """All that goes on to the next block, that of a planted fault included."""
        return {"state": self.state, "taps": self.taps, "path": vars(self.path)}

    def restore(self, kept: dict[str, Any]) -> None:
        """Goes on from what ``kept`` gave."""
        self.state, self.taps = kept["state"], kept["taps"]
        vars(self.path).update(kept["path"])


def default(inputs: dict[str, Any]) -> Subject:
    """The default path: the same for every TP."""
    return Subject("emulated-default", DefaultKda(), inputs)


def specialized(name: str, path: SpecializedKda, inputs: dict[str, Any]) -> Subject:
    """The specialized path, or a faulty one."""
    path.lanes = LANES
    return Subject(name, path, inputs)
