"""Faults planted in a whole engine: the stand-in's specialized arm, each tied to the kind of real bug it stands for.

A fault is a subclass of the stand-in's ``SpecializedForms``, which takes the place of the specialized path, or of its
``Forms``, which takes the place of what the specialized arm runs by default (prompts, mixed steps). Nothing here imports vLLM.
``validate/equivalence/detection.py`` records and compares them.
"""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from validate.errors import InputError
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


_CATALOGUE: dict[str, EngineFault] = {}


def fault(name: str, stands_for: str, *, shown: Shown = "bfloat16") -> Callable[[type[Path]], type[Path]]:
    """Class decorator that enters a faulty path into the catalogue."""

    def enter(implementation: type[Path]) -> type[Path]:
        if name in _CATALOGUE:
            raise ValueError(f"two faults are named {name}")
        _CATALOGUE[name] = EngineFault(name, stands_for, shown, implementation)
        return implementation

    return enter


def catalogue() -> dict[str, EngineFault]:
    """Every planted fault by name, in the order of the files."""
    for module in sorted(m.name for m in pkgutil.iter_modules(__path__)):
        importlib.import_module(f"{__name__}.{module}")
    return dict(_CATALOGUE)


def find(name: str) -> EngineFault:
    """The fault of that name. InputError if there is none."""
    known = catalogue()
    if name not in known:
        raise InputError(f"unknown fault '{name}' of a whole engine: there are {', '.join(known)}")
    return known[name]


def planted(name: str | None, path: type[Path]) -> type[Path]:
    """The class that takes the place of a path (``Forms`` or ``SpecializedForms``) where the fault of that name is planted."""
    if name is None or find(name).path is not path:
        return path
    faulty = find(name).implementation
    assert issubclass(faulty, path)
    return faulty
