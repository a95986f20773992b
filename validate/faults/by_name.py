"""Faults by name, entered by the decorators in a package's files."""

import importlib
import pkgutil
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from validate.errors import InputError


class Named(Protocol):
    """What is entered."""

    @property
    def name(self) -> str:
        """Unique in its catalogue."""
        ...


Planted = TypeVar("Planted", bound=Named)


class Catalogue(Generic[Planted]):
    """Of one package: its name and path. ``unknown``: what is said behind a name that is none, of {names} or {count}."""

    def __init__(self, package: str, path: Iterable[str], unknown: str) -> None:
        self._package, self._path, self._unknown = package, path, unknown
        self._known: dict[str, Planted] = {}

    def enter(self, fault: Planted) -> None:
        """ValueError for a name that is there."""
        if fault.name in self._known:
            raise ValueError(f"two faults are named {fault.name}")
        self._known[fault.name] = fault

    def all(self) -> dict[str, Planted]:
        """Every fault by name, in the order of the package's files."""
        for module in sorted(m.name for m in pkgutil.iter_modules(self._path)):
            importlib.import_module(f"{self._package}.{module}")
        return dict(self._known)

    def find(self, name: str) -> Planted:
        """The fault of that name. InputError if there is none."""
        known = self.all()
        if name not in known:
            raise InputError(f"unknown fault '{name}'" + self._unknown.format(names=", ".join(known), count=len(known)))
        return known[name]
