"""What a protocol is written in: memory cells, threads, and straight programs of stores, waits and fences.

A cell is what one access reads or writes as a whole: 16 bytes, or a counter. Larger payloads are several cells, and tear. A
thread is whatever runs in program order: a CTA, a warp, or a whole kernel of one rank where its CTAs do not matter. Loops are
unrolled by the Python code that builds the program, so that every program ends.

Stores wait in their thread's buffer and become visible one by one: those to one cell in order, those to different cells in any
order. A fence waits until the buffer is empty; a releasing store becomes visible after all earlier ones. Loads happen in
program order, but a load without acquire may have happened earlier (``Thread.load``'s ``since``). A thread sees its own stores at
once. A multicast is one store a destination.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Literal

Value = Hashable
ARMED = "armed"  # a Lamport mailbox that waits for its payload: the sentinel
Registers = dict[str, Value]


def at_least(count: int) -> Callable[[Value], bool]:
    """Of a counter that goes up: whether it has come so far."""
    return lambda value: value >= count  # type: ignore[operator]


@dataclass(frozen=True)
class Cell:
    """``start``: its first value. ``sentinel``: the value by which readers know that nothing has come, None if it is no mailbox.

    ``end``: what it must hold once every thread has ended, None if that does not matter.
    """

    name: str
    start: Value = ARMED
    sentinel: Value = ARMED
    end: Value = None


@dataclass(frozen=True)
class Store:
    """Of a mailbox's ``payload``, or one that ``arms`` it, or neither. ``over``: what it may replace, None if anything.

    ``release``: it becomes visible after all earlier ones.
    """

    cell: int
    value: Value
    over: tuple[Value, ...] | None = None
    payload: bool = False
    arms: bool = False
    release: bool = False


@dataclass(frozen=True)
class Wait:
    """Polls until ``ready``, of a mailbox until its sentinel has gone.

    ``expect`` is what must be there then. ``group``: cells of one payload, which could be torn.
    """

    cell: int
    ready: Callable[[Value], bool]
    what: str
    mail: bool = False
    expect: Value = None
    group: Hashable = None


@dataclass(frozen=True)
class Load:
    """Reads once, into a register or to be ``expect``. ``since``: the instruction from which on it may have happened."""

    cell: int
    into: str | None
    expect: Value
    since: int


@dataclass(frozen=True)
class Atomic:
    """Reads and writes in one. ``into`` gets the value before. ``release``: waits for the thread's earlier stores."""

    cell: int
    change: Callable[[Value], Value]
    what: str
    into: str | None
    release: bool


@dataclass(frozen=True)
class Fence:
    """Waits until all earlier stores are visible: a fence, or the end of a kernel."""

    what: str


@dataclass(frozen=True)
class Skip:
    """Leaves out the next ``count`` instructions unless ``condition`` holds of the registers."""

    condition: Callable[[Registers], bool]
    count: int


Instruction = Store | Wait | Load | Atomic | Fence | Skip


@dataclass
class Thread:
    """A program in the making. ``name`` is what traces call it."""

    name: str
    system: "System"
    program: list[Instruction] = field(default_factory=list)

    def store(self, cell: str, value: Value, release: bool = False) -> None:
        """Writes a payload to a mailbox, which must be armed, or any value to a cell that is no mailbox."""
        place = self.system.place[cell]
        sentinel = self.system.cells[place].sentinel
        mail = sentinel is not None
        self.program.append(Store(place, value, (sentinel,) if mail else None, payload=mail, release=release))

    def arm(self, cell: str, clears: Value = None) -> None:
        """Writes the sentinel. ``clears``: the payload that it may replace, if any; another one would be lost."""
        place = self.system.place[cell]
        sentinel = self.system.cells[place].sentinel
        self.program.append(Store(place, sentinel, None if clears is None else (clears, sentinel), arms=True))

    def receive(self, cell: str, expect: Value, group: Hashable = None) -> None:
        """Polls a mailbox until its sentinel has gone; what is there then must be ``expect``."""
        place = self.system.place[cell]
        sentinel = self.system.cells[place].sentinel
        self.program.append(Wait(place, lambda value: value != sentinel, "a payload", True, expect, group))

    def wait(self, cell: str, ready: Callable[[Value], bool], what: str) -> None:
        """Polls until ``ready``; ``what`` says for whom it waits."""
        self.program.append(Wait(self.system.place[cell], ready, what))

    def load(self, cell: str, expect: Value = None, into: str | None = None, since: int | None = None) -> None:
        """Reads once. ``since``: the program's length (``len(thread.program)``) after the last acquire before it."""
        here = len(self.program)
        self.program.append(Load(self.system.place[cell], into, expect, here if since is None else since))

    def add(self, cell: str, amount: int = 1, into: str | None = None, release: bool = True) -> None:
        """Adds to a counter, atomically."""
        self.atomic(cell, lambda value: value + amount, f"+ {amount}", into, release)  # type: ignore[operator]

    def atomic(
        self, cell: str, change: Callable[[Value], Value], what: str, into: str | None = None, release: bool = True
    ) -> None:
        """Reads and writes in one step."""
        self.program.append(Atomic(self.system.place[cell], change, what, into, release))

    def fence(self, what: str = "fence") -> None:
        """Waits until all earlier stores are visible everywhere."""
        self.program.append(Fence(what))

    def when(self, condition: Callable[[Registers], bool], then: Callable[[], None]) -> None:
        """Runs what ``then`` appends only if ``condition`` holds of the registers."""
        at = len(self.program)
        self.program.append(Skip(condition, 0))
        then()
        self.program[at] = Skip(condition, len(self.program) - at - 1)


@dataclass
class System:
    """Cells and threads of one protocol."""

    cells: list[Cell] = field(default_factory=list)
    threads: list[Thread] = field(default_factory=list)
    place: dict[str, int] = field(default_factory=dict)

    def mailbox(self, name: str, end: Literal["armed", "any"] = "armed") -> str:
        """A cell that is armed at first, and at the end."""
        return self._add(Cell(name, end=ARMED if end == "armed" else None))

    def cell(self, name: str, start: Value, end: Value = None) -> str:
        """A counter, a flag or plain data."""
        return self._add(Cell(name, start, None, end))

    def thread(self, name: str) -> Thread:
        """A new one, whose program is still empty."""
        self.threads.append(Thread(name, self))
        return self.threads[-1]

    def _add(self, cell: Cell) -> str:
        self.place[cell.name] = len(self.cells)
        self.cells.append(cell)
        return cell.name
