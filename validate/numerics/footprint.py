"""What a case takes on a machine: ranks, and each rank's tensors with their bytes. Nothing is computed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

from validate.model.call import Call
from validate.model.microscaling import Packed

MIB = 2**20

# What a call holds for all ranks at once, and the dimension along which each of them has an equal part; the other tensors
# are one rank's, or the same on every rank. Stages that are not named here are computed by one rank.
PARTS: Mapping[str, Mapping[str, int]] = {
    "embedding": {"table": 0, "out": 0},
    # Where the context is shared among the ranks. Of x each has the latents and its own gate.
    "mla": {"slots": 0, "lengths": 0, "cache": 0, "q_b": 0, "w_uk": 0, "w_uv": 0, "query": 1, "out": 1},
    "o_proj": {"local": 0, "delta": 0, "prefix": 0},
    "router": {"ids": 0, "weights": 0},
    "latent_down": {"out": 0},
    # Of the mailboxes a rank's own columns: of the shared experts' it receives no others, nor of the latent where that is
    # two-shot; one-shot each rank receives all columns, and is asked for its own.
    "moe_tail": {"routed": 0, "shared": 0, "out": 0, "latent": -1, "latent_old": -1, "shared_box": -1, "shared_old": -1},
    "logits": {"head": 0, "logits": 0, "token": 0},
}


@dataclass(frozen=True)
class Piece:
    """A tensor of one rank."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def bytes(self) -> int:
        """Its size."""
        return prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.name} {str(self.dtype).removeprefix('torch.')} {'x'.join(map(str, self.shape))}"


@dataclass(frozen=True)
class Footprint:
    """One case: how many ``ranks`` compute it together, and the ``pieces`` that each of them holds."""

    ranks: int
    pieces: tuple[Piece, ...]

    @property
    def mib(self) -> float:
        """MiB a rank: inputs, outputs and buffers. Where one GPU computes all ranks, it holds as much for each."""
        return sum(piece.bytes for piece in self.pieces) / MIB

    @property
    def largest(self) -> Piece:
        """The largest tensor of a rank."""
        return max(self.pieces, key=lambda piece: piece.bytes)


def ranks_of(stage: str, sizes: Mapping[str, int]) -> int:
    """How many ranks a case's stage is spread over: its TP group, or the ranks that share its context."""
    if stage not in PARTS:
        return 1
    return sizes["dcp"] if stage == "mla" else sizes["tp"]


def footprint(call: Call) -> Footprint:
    """What each rank of a call holds."""
    ranks = ranks_of(call.stage, call.shape)
    parts = PARTS.get(call.stage, {})
    pieces = []
    for name, shape, dtype in _tensors(call):
        own = list(shape)
        if name in parts:
            own[parts[name]], rest = divmod(own[parts[name]], ranks)
            if rest:
                raise ValueError(f"{call.stage}: {name} {shape} has no equal parts for {ranks} ranks")
        pieces.append(Piece(name, tuple(own), dtype))
    return Footprint(ranks, tuple(pieces))


def _tensors(call: Call) -> Iterator[tuple[str, tuple[int, ...], torch.dtype]]:
    for group in (call.inputs, call.buffers):
        for name, value in group.items():
            for full, tensor in _flat(name, value):
                yield full, tuple(tensor.shape), tensor.dtype
    for name, (shape, dtype) in call.empty.items():
        yield name, shape, dtype


def _flat(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    """The tensors in an input, which may be packed or nested: the whole step's inputs are a model."""
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, Packed):
        yield from _flat(f"{name}.codes", value.codes)
        yield from _flat(f"{name}.scales", value.scales)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}", inner)
    elif isinstance(value, (list, tuple)):
        for place, inner in enumerate(value):
            yield from _flat(f"{name}.{place}", inner)
    elif hasattr(value, "__dict__"):
        yield from _flat(name, vars(value))
