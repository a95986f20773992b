"""Faults planted in a whole engine: the stand-in's specialized arm, each tied to the kind of real bug it stands for.

A fault is a subclass of the stand-in's ``SpecializedForms``, which takes the place of the specialized path, or of its
``Forms``, which takes the place of what the specialized arm runs by default (prompts, mixed steps). Nothing here imports vLLM.
``validate/equivalence/detection.py`` records and compares them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from validate.faults.by_name import Catalogue
from validate.standin.forms import Forms
from validate.standin.specialized import SpecializedForms

# What shows it: an arm set in bfloat16, in float32 (where it lies below bfloat16's own noise), with draft tokens, of texts in
# changing company, evals, or long outputs.
Shown = Literal["bfloat16", "float32", "drafts", "company", "evals", "long", "long in float32"]
Path = TypeVar("Path", bound=Forms)


@dataclass(frozen=True)
class EngineFault:
    """``path``: what it takes the place of."""

    name: str
    stands_for: str
    shown: Shown
    implementation: type[Forms]

    @property
    def path(self) -> type[Forms]:
        """The sound class."""
        return SpecializedForms if issubclass(self.implementation, SpecializedForms) else Forms


_FAULTS: Catalogue[EngineFault] = Catalogue(__name__, __path__, " of a whole engine: there are {names}")
catalogue, find = _FAULTS.all, _FAULTS.find


def fault(name: str, stands_for: str, *, shown: Shown = "bfloat16") -> Callable[[type[Path]], type[Path]]:
    """Class decorator that enters a faulty path into the catalogue."""

    def enter(implementation: type[Path]) -> type[Path]:
        _FAULTS.enter(EngineFault(name, stands_for, shown, implementation))
        return implementation

    return enter


def planted(name: str | None, path: type[Path]) -> type[Path]:
    """The class that takes the place of a path (``Forms`` or ``SpecializedForms``) where the fault of that name is planted."""
    if name is None or find(name).path is not path:
        return path
    faulty = find(name).implementation
    assert issubclass(faulty, path)
    return faulty
