"""The subjects: what computes a stage, behind one small interface."""

from typing import Protocol

from validate.model.call import Call


class Broken(Exception):
    """A subject failed a check while it ran: ``count`` things of ``tensor`` are wrong."""

    def __init__(self, tensor: str, check: str, count: int, detail: str) -> None:
        super().__init__(detail)
        self.tensor, self.check, self.count = tensor, check, count

    def __reduce__(self) -> tuple[type["Broken"], tuple[object, ...]]:
        """It travels from one rank to the others."""
        return type(self), (self.tensor, self.check, self.count, str(self))


class Lost(Broken):
    """A kernel did not end, or not well: nothing more can be run on this process's GPU.

    ``count``: fragments of a mailbox that are still armed, or 1 for an error.
    """

    def __init__(self, count: int, detail: str) -> None:
        super().__init__("kernel", "finished", count, detail)

    def __reduce__(self) -> tuple[type["Lost"], tuple[object, ...]]:
        """As its base's, with its own arguments."""
        return type(self), (self.count, str(self))


class Subject(Protocol):
    """Something that computes decode stages."""

    name: str
    path: str  # whose rounding points it declares: "default" or "specialized"

    def missing(self, call: Call) -> str | None:
        """Why it cannot run this call, in a few words; None if it can."""

    def note(self, call: Call) -> str | None:
        """What of the stage it takes from elsewhere; None if nothing."""

    def ranks(self, call: Call) -> int:
        """How many processes run it together, one a GPU; each of them calls ``run`` and ``again`` then."""

    def run(self, call: Call) -> None:
        """Fills ``call.outputs`` and updates ``call.buffers`` in place. ``call`` comes from ``Call.fresh``."""

    def again(self, call: Call) -> None:
        """The second run, by which repeatability is judged: the same, or another way that must give the same bits."""
