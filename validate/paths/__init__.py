"""The subjects: what computes a stage, behind one small interface."""

from typing import Protocol

from validate.model.call import Call


class Subject(Protocol):
    """Something that computes decode stages."""

    name: str
    path: str  # whose rounding points it declares: "default" or "specialized"

    def missing(self, call: Call) -> str | None:
        """Why it cannot run this call, in a few words; None if it can."""

    def run(self, call: Call) -> None:
        """Fills ``call.outputs`` and updates ``call.buffers`` in place. ``call`` comes from ``Call.fresh``."""
