"""One invocation of a decode stage: what every subject gets, and what the reference says of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Call:
    """Inputs of a stage and the places that it writes.

    ``shape`` holds what selects a regime (``tp``, ``batch`` in rows, ``q`` rows a request, ...). ``inputs`` are read only.
    ``buffers`` are updated in place (caches, prefix, saved blocks). ``empty`` names each output with its shape and dtype;
    ``outputs`` holds them once ``fresh`` has allocated and poisoned them.
    """

    stage: str
    shape: Mapping[str, int]
    inputs: Mapping[str, Any]
    empty: Mapping[str, tuple[tuple[int, ...], torch.dtype]]
    buffers: Mapping[str, Tensor] = field(default_factory=dict)
    outputs: Mapping[str, Tensor] = field(default_factory=dict)

    def fresh(self) -> "Call":
        """A copy for one subject: its own buffers, and outputs filled with NaN (integers: the lowest value)."""
        outputs = {name: poisoned(shape, dtype) for name, (shape, dtype) in self.empty.items()}
        buffers = {name: tensor.clone() for name, tensor in self.buffers.items()}
        return replace(self, buffers=buffers, outputs=outputs)

    def to(self, device: torch.device | str) -> "Call":
        """The same call with its tensors there."""

        def moved(values: Mapping[str, Any]) -> dict[str, Any]:
            return {name: value.to(device) if isinstance(value, Tensor) else value for name, value in values.items()}

        return replace(self, inputs=moved(self.inputs), buffers=moved(self.buffers), outputs=moved(self.outputs))

    def written(self, name: str) -> Tensor:
        """The output or buffer of that name."""
        return self.outputs[name] if name in self.outputs else self.buffers[name]


def poisoned(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """A tensor that no correct stage returns: NaN, or the lowest integer."""
    if dtype.is_floating_point:
        return torch.full(shape, float("nan")).to(dtype)
    return torch.full(shape, torch.iinfo(dtype).min, dtype=dtype)


@dataclass(frozen=True)
class Expected:
    """What the reference says of one output or buffer.

    ``value`` is float64. ``where`` indexes the part of a buffer that the stage may write (everything else must stay
    bit-identical), or the part of an output that is judged (padded rows are free); None is the whole. ``replicated`` means
    a leading rank dimension over which all must agree bitwise; ``value`` then has no such dimension. ``roundings`` counts
    the rounding points passed on the way. ``exact``: the bits must be those of ``value`` in the tensor's dtype, the sign of
    a zero included. ``granted``, like ``value``: how far the specialized path's own rule for a block scale moves each element,
    with what may flip under it, where both paths quantise but by different rules: no fault of an implementation, so part of
    the comparison's floor.
    """

    value: Tensor
    where: tuple[Any, ...] | None = None
    replicated: bool = False
    roundings: int = 0
    exact: bool = False
    granted: Tensor | None = None


@dataclass(frozen=True)
class ExpectedChoice:
    """What the reference says of a discrete output: int ids [rows, k], the k largest of ``scores`` [rows, n] float64.

    A chosen and a left-out id may change places where their scores lie within ``error`` [rows, n] of each other.
    Equal scores with error zero go to the lower id. ``twin`` [n] int64 names, for each id, the next lower one whose score is
    the same in every implementation (equal inputs, hence equal bits), or -1: the lower id of the two comes first.
    """

    scores: Tensor
    error: Tensor
    count: int
    replicated: bool = False
    twin: Tensor | None = None
