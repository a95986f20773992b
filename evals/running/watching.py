"""Stops the specialized arm where its losses are proven already: looked at whenever a repeat of a task is whole."""

from collections import Counter
from pathlib import Path

from evals.comparing import stopping
from evals.comparing.reading import Items, read
from evals.records import folder


class Stopped(Exception):
    """The evidence, in a line."""


class Watch:
    """Of the specialized arm that is recorded in ``there``, beside the whole record of the ``default`` one."""

    def __init__(self, default: Path, there: Path) -> None:
        self._there, self._plan = there, folder.manifest(default)
        self._items: dict[str, Items] = {}
        self._default = read(default, self._plan, self._items)
        self._left = Counter({(task.name, repeat): task.items for task in self._plan.tasks for repeat in range(task.repeats)})

    def seen(self, task: str, repeat: int) -> bool:
        """Counts one response; says whether its repeat is whole now."""
        self._left[task, repeat] -= 1
        return not self._left[task, repeat]

    def look(self) -> None:
        """``Stopped`` where what is recorded is evidence enough (``evals/comparing/stopping.py``)."""
        found = stopping.evidence(self._default, read(self._there, self._plan, self._items))
        if stopping.stops(found):
            raise Stopped(stopping.says(found))
