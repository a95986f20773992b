"""Faults planted in the recurrence that show, or grow, only after many steps: each tied to the kind of real bug it stands for.

A fault is a subclass of the emulated specialized KDA; one that happens once in so many steps counts them (``Counted``).
``validate/long_output/drift`` runs them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from validate.faults.by_name import Catalogue
from validate.paths.emulated.kda import SpecializedKda

RARE = 4096  # steps between two events of a rare fault


@dataclass(frozen=True)
class DriftFault:
    """``from_step``: the first step that it changes; nothing can find it earlier."""

    name: str
    stands_for: str
    from_step: int
    implementation: type[SpecializedKda]


class Counted(SpecializedKda):
    """``taken`` counts the steps, from 1 in the first."""

    def __init__(self) -> None:
        self.taken = 0

    def step(
        self, state: Tensor, decay: Tensor, beta: Tensor, query: Tensor, key: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor]:
        """One token; the step that is counted is the one under way, up to its ``store``."""
        self.taken += 1
        return super().step(state, decay, beta, query, key, value)

    @property
    def rare(self) -> bool:
        """Whether the step under way is one in ``RARE``."""
        return self.taken % RARE == 0


def cut(values: Tensor, bits: int) -> Tensor:
    """fp32 ``values`` without the last ``bits`` of their mantissas, towards zero."""
    return (values.contiguous().view(torch.int32) & -(1 << bits)).view(torch.float32)


_FAULTS: Catalogue[DriftFault] = Catalogue(__name__, __path__, " of a long recurrence: there are {names}")
catalogue, find = _FAULTS.all, _FAULTS.find


def fault(name: str, stands_for: str, *, from_step: int = 1) -> Callable[[type[SpecializedKda]], type[SpecializedKda]]:
    """Class decorator that enters a faulty recurrence into the catalogue."""

    def enter(implementation: type[SpecializedKda]) -> type[SpecializedKda]:
        _FAULTS.enter(DriftFault(name, stands_for, from_step, implementation))
        return implementation

    return enter
