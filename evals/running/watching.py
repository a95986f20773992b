"""Stops the specialized arm where its losses are proven already: looked at whenever a repeat of a task is whole."""

from pathlib import Path

from evals.comparing import stopping
from evals.comparing.reading import UNSEEN, Items, empty, read, take
from evals.records import folder
from evals.records.model import Answered


class Stopped(Exception):
    """The evidence, in a line."""


class Watch:
    """Of the specialized arm that is recorded in ``there``, or goes on there, beside the ``default`` one's whole record."""

    def __init__(self, default: Path, there: Path) -> None:
        plan, self._items = folder.manifest(default), dict[str, Items]()
        self._default = read(default, plan, self._items)
        begun = (there / folder.RESPONSES).exists()
        self._specialized = read(there, plan, self._items) if begun else empty(there, plan)

    def see(self, one: Answered) -> None:
        """One more response. ``Stopped`` where its repeat is whole and all are evidence enough (evals/comparing/stopping.py)."""
        take(one, self._specialized, self._items)
        if (self._specialized.tasks[one.task].outcomes[:, one.repeat] == UNSEEN).any():
            return
        found = stopping.evidence(self._default, self._specialized)
        if stopping.stops(found):
            raise Stopped(stopping.says(found))
