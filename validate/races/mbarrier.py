"""A CTA's mbarrier as one cell: its phase completes once all arrivals and all announced bytes have come.

PTX ISA, "mbarrier". Bytes may come before they are announced, in the same phase. What comes before the initialisation is lost,
which the machine calls a lost update, and an uninitialised mbarrier may let a waiting thread pass.
"""

from dataclasses import dataclass
from functools import partial

from validate.races.system import Store, System, Thread, Value

RAW, HASTY = "uninitialised", "arrivals before its initialisation"
Fields = tuple[int, int, int, int]  # the phase, the arrivals it takes, those that are missing, the bytes that are missing


@dataclass(frozen=True)
class Mbarrier:
    """``cell`` by name."""

    cell: str

    def initialise(self, thread: Thread, arrivals: int, expect: int = 0) -> None:
        """An ordinary store: only a fence makes it visible in time.

        ``expect``: bytes that the same thread announces at once, as one of the arrivals. That orders it within its CTA only.
        """
        missing = arrivals - 1 if expect else arrivals
        thread.program.append(Store(thread.system.place[self.cell], (0, arrivals, missing, expect), over=(RAW,)))

    def arrive(self, thread: Thread, arrivals: int = 1, expect: int = 0) -> None:
        """After the thread's earlier stores. ``expect``: bytes that it announces."""
        change = partial(_changed, arrivals=arrivals, received=-expect)
        thread.atomic(self.cell, change, f"{arrivals} arrivals, {expect} bytes expected")

    def complete(self, thread: Thread, received: int) -> None:
        """Bytes that have come: after the data, which the thread has stored before."""
        thread.atomic(self.cell, partial(_changed, arrivals=0, received=received), f"{received} bytes have come")

    def wait(self, thread: Thread, parity: int = 0) -> None:
        """Until the phase of that parity has completed: as the hardware has it, until the current phase has the other one."""
        thread.wait(self.cell, lambda fields: _phase(fields) != parity, f"the end of a phase of parity {parity}")


def mbarrier(system: System, name: str) -> Mbarrier:
    """Not initialised yet."""
    return Mbarrier(system.cell(name, RAW))


def _changed(fields: Value, *, arrivals: int, received: int) -> Value:
    if not isinstance(fields, tuple):
        return HASTY
    phase, count, missing, tx = fields
    missing, tx = missing - arrivals, tx - received
    return (phase, count, missing, tx) if missing > 0 or tx else (phase + 1, count, count, 0)


def _phase(fields: Value) -> int | None:
    return fields[0] % 2 if isinstance(fields, tuple) else None
