"""The subjects: what computes a stage, behind one small interface."""

from typing import Protocol

from validate.model.call import Call


class Stuck(Exception):
    """A kernel did not end by its deadline. The process's GPU context is lost. ``armed`` counts fragments it waits for."""

    def __init__(self, armed: int, detail: str) -> None:
        super().__init__(detail)
        self.armed = armed


class Subject(Protocol):
    """Something that computes decode stages."""

    name: str
    path: str  # whose rounding points it declares: "default" or "specialized"

    def missing(self, call: Call) -> str | None:
        """Why it cannot run this call, in a few words; None if it can."""

    def polls(self, call: Call) -> bool:
        """Whether it waits for something and may wait for ever: then it is judged in a process of its own."""

    def run(self, call: Call) -> None:
        """Fills ``call.outputs`` and updates ``call.buffers`` in place. ``call`` comes from ``Call.fresh``."""

    def again(self, call: Call) -> None:
        """The second run, by which repeatability is judged: the same, or another way that must give the same bits."""
