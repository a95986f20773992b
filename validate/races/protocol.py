"""What every protocol file offers: its program by size, its planted faults, and the sizes that are explored."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from validate.races.system import System

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Fault:
    """``plants`` says what is wrong in it, ``stands_for`` the real bug."""

    name: str
    plants: str
    stands_for: str


@dataclass(frozen=True)
class Protocol:
    """``build(fault=None, **sizes)`` makes the program, with at most one of the ``faults`` by name.

    ``whole``: sizes that are explored to the end, the first of which shows every fault. ``beyond``: one for random schedules.
    """

    name: str
    build: Callable[..., System]
    faults: tuple[Fault, ...]
    whole: tuple[Sizes, ...]
    beyond: Sizes
