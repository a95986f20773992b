"""Planted faults: named, switchable defects in the emulated subjects, each tied to the kind of real bug it stands for.

They measure the suite itself: a check that no fault can fail proves nothing. A fault is a subclass of the stage that it is
planted in, with one step replaced, so that the sound stages carry no switches.
"""

from collections.abc import Callable
from dataclasses import dataclass

from validate.faults.by_name import Catalogue
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


_FAULTS: Catalogue[Fault] = Catalogue(__name__, __path__, ": `python -m validate faults` lists the {count} there are")
catalogue, find = _FAULTS.all, _FAULTS.find


def fault(name: str, stands_for: str, *, subtle: bool = False, path: str = "specialized") -> Callable[[type], type]:
    """Class decorator that enters a faulty stage into the catalogue."""

    def enter(implementation: type) -> type:
        _FAULTS.enter(Fault(name, stands_for, subtle, path, implementation))
        return implementation

    return enter
