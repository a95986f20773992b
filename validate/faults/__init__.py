"""Planted faults: named, switchable defects in the emulated subjects, each tied to the kind of real bug it stands for.

They measure the suite itself: a check that no fault can fail proves nothing. A fault is a subclass of the stage that it is
planted in, with one step replaced, so that the sound stages carry no switches.
"""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from validate.errors import InputError
from validate.paths.emulated import Emulated


@dataclass(frozen=True)
class Fault:
    """``name`` is ``stage.what``. ``subtle``: one rounding, one row or one head of many, which coarse checks overlook."""

    name: str
    stands_for: str
    subtle: bool
    path: str
    implementation: type

    @property
    def stage(self) -> str:
        """The stage that it is planted in."""
        return self.name.split(".")[0]

    def subject(self) -> Emulated:
        """The emulated path with this fault, named after it."""
        return Emulated(self.path, {self.stage: self.implementation}, self.name)


_CATALOGUE: dict[str, Fault] = {}


def fault(name: str, stands_for: str, *, subtle: bool = False, path: str = "specialized") -> Callable[[type], type]:
    """Class decorator that enters a faulty stage into the catalogue."""

    def enter(implementation: type) -> type:
        if name in _CATALOGUE:
            raise ValueError(f"two faults are named {name}")
        _CATALOGUE[name] = Fault(name, stands_for, subtle, path, implementation)
        return implementation

    return enter


def catalogue() -> dict[str, Fault]:
    """Every planted fault by name, in the order of the stages' files."""
    for module in sorted(m.name for m in pkgutil.iter_modules(__path__)):
        importlib.import_module(f"{__name__}.{module}")
    return dict(_CATALOGUE)


def find(name: str) -> Fault:
    """The fault of that name. InputError if there is none."""
    known: dict[str, Any] = catalogue()
    if name not in known:
        raise InputError(f"unknown fault '{name}': `python -m validate faults` lists the {len(known)} there are")
    return known[name]
