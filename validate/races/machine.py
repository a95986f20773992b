"""What a step does to a system's state, and what is wrong with the outcome.

A step is one access that other threads may notice: a wait, a load or an atomic that a thread executes, or a buffered store that
becomes visible. What nobody else can notice (a store into the thread's own buffer, a fence with nothing before it) belongs to the
step before it.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

from validate.races.system import Atomic, Fence, Instruction, Load, Skip, Store, System, Value, Wait

T = TypeVar("T")
Log = list[str] | None  # gets a line for each thing that happened
Kind = Literal["stale read", "torn read", "lost update", "not armed", "payload is the sentinel", "deadlock", "left behind"]
Buffer = tuple[Store, ...]  # in program order


class State(NamedTuple):
    """Hashable. By thread ``places`` in programs, ``buffers`` in program order and ``registers``; ``memory`` by cell."""

    places: tuple[int, ...]
    memory: tuple[Value, ...]
    buffers: tuple[Buffer, ...]
    registers: tuple[tuple[tuple[str, Value], ...], ...]


class Step(NamedTuple):
    """``what``: None if ``thread`` executes its next instruction, "visible" and the place ``at`` in its buffer of the store that
    becomes so, or "early" and the instruction of the load that happens before its turn.
    """

    thread: int
    what: Literal["visible", "early"] | None = None
    at: int = 0


@dataclass(frozen=True)
class Violation:
    """What went wrong, and where.

    - "stale read": another value than the reader must get; "torn read": the same behind a right part of that payload
    - "not armed": a payload is written to a mailbox that holds another one
    - "lost update": what nobody has read is written over (or, of an mbarrier, arrivals that came before it was initialised)
    - "payload is the sentinel": its reader would wait on; "deadlock": threads wait and nothing can happen any more
    - "left behind": all have ended, and a cell does not hold what the next step needs
    """

    kind: Kind
    text: str


class Machine:
    """A system that runs."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.programs = [tuple(thread.program) for thread in system.threads]
        self.early = [
            [(index, one.since) for index, one in enumerate(program) if isinstance(one, Load) and one.since < index]
            for program in self.programs
        ]

    def begin(self, log: Log) -> tuple[State, Violation | None]:
        """The state before any step."""
        n = len(self.programs)
        state = State((0,) * n, tuple(cell.start for cell in self.system.cells), ((),) * n, ((),) * n)
        for thread in range(n):
            state, wrong = self._settled(state, thread, log)
            if wrong:
                return state, wrong
        return state, None

    def enabled(self, state: State) -> list[Step]:
        """Every step that may come next."""
        return [step for thread in range(len(self.programs)) for step in self.of(state, thread)]

    def of(self, state: State, thread: int) -> list[Step]:
        """Those of one thread."""
        found, place, program = [], state.places[thread], self.programs[thread]
        if place < len(program) and self._ready(state, thread, program[place]):
            found.append(Step(thread))
        buffer = state.buffers[thread]
        cells: set[int] = set()
        for index, store in enumerate(buffer):
            if store.cell not in cells and not (store.release and index):
                found.append(Step(thread, "visible", index))
            cells.add(store.cell)
        for index, since in self.early[thread]:
            if since <= place < index and f"early {index}" not in dict(state.registers[thread]):
                found.append(Step(thread, "early", index))
        return found

    def after(self, state: State, step: Step, log: Log) -> tuple[State, Violation | None]:
        """The state after a step that is enabled."""
        if step.what == "visible":
            state, wrong = self._visible(state, step, log)
        elif step.what == "early":
            load = self.programs[step.thread][step.at]
            assert isinstance(load, Load)
            value = self.seen(state, step.thread, load.cell)
            if log is not None:
                log.append(f"{self._name(step.thread)}: loads {self._cell(load.cell)} early: {value}")
            state, wrong = self._with(state, step.thread, f"early {step.at}", value), None
        else:
            state, wrong = self._run(state, step.thread, log)
        return (state, wrong) if wrong else self._settled(state, step.thread, log)

    def ending(self, state: State) -> Violation | None:
        """What is wrong with a state that no step leads out of."""
        waiting = [self._blocked(state, thread) for thread in range(len(self.programs))]
        if any(waiting):
            return Violation("deadlock", "; ".join(filter(None, waiting)))
        for cell, value in zip(self.system.cells, state.memory, strict=True):
            if cell.end is not None and value != cell.end:
                return Violation("left behind", f"{cell.name} holds {value} at the end, {cell.end} is wanted")
        return None

    def pending(self, state: State) -> list[str]:
        """Stores that nobody but their thread sees yet."""
        return [
            f"{self._name(thread)}: {self._cell(store.cell)} = {store.value} is not visible yet"
            for thread, buffer in enumerate(state.buffers)
            for store in buffer
        ]

    def seen(self, state: State, thread: int, cell: int) -> Value:
        """What the thread reads there: its own latest store, or memory."""
        return next((store.value for store in reversed(state.buffers[thread]) if store.cell == cell), state.memory[cell])

    def _ready(self, state: State, thread: int, one: Instruction) -> bool:
        if isinstance(one, Wait):
            return one.ready(self.seen(state, thread, one.cell))
        if isinstance(one, Atomic):
            buffer = state.buffers[thread]
            return not buffer if one.release else all(store.cell != one.cell for store in buffer)
        return isinstance(one, Load)

    def _run(self, state: State, thread: int, log: Log) -> tuple[State, Violation | None]:
        place = state.places[thread]
        one = self.programs[thread][place]
        assert isinstance(one, Wait | Load | Atomic)
        value = self.seen(state, thread, one.cell)
        state = self._at(state, thread, place + 1)
        if isinstance(one, Atomic):
            new = one.change(value)
            if log is not None:
                log.append(f"{self._name(thread)}: {self._cell(one.cell)} {one.what}: {value} -> {new}")
            state = state._replace(memory=_put(state.memory, one.cell, new))
            return (self._with(state, thread, one.into, value) if one.into else state), None
        if isinstance(one, Load):
            early = dict(state.registers[thread]).get(f"early {place}", self)
            value = value if early is self else early
        if log is not None:
            log.append(f"{self._name(thread)}: reads {self._cell(one.cell)}: {value}")
        if one.expect is not None and value != one.expect:
            torn = isinstance(one, Wait) and one.group is not None and place > 0 and self._same_group(thread, place)
            text = f"{self._name(thread)} reads {value} from {self._cell(one.cell)}, {one.expect} is wanted"
            return state, Violation("torn read" if torn else "stale read", text)
        return (self._with(state, thread, one.into, value) if isinstance(one, Load) and one.into else state), None

    def _same_group(self, thread: int, place: int) -> bool:
        """Whether another cell of the payload was read before, as it should be."""
        group = getattr(self.programs[thread][place], "group", None)
        return any(getattr(one, "group", None) == group for one in self.programs[thread][:place])

    def _visible(self, state: State, step: Step, log: Log) -> tuple[State, Violation | None]:
        buffer = state.buffers[step.thread]
        store = buffer[step.at]
        before, cell = state.memory[store.cell], self._cell(store.cell)
        if log is not None:
            log.append(f"{self._name(step.thread)}: {cell} = {store.value} becomes visible (was {before})")
        left = buffer[: step.at] + buffer[step.at + 1 :]
        state = state._replace(memory=_put(state.memory, store.cell, store.value), buffers=_put(state.buffers, step.thread, left))
        if store.over is None or before in store.over:
            return state, None
        if store.payload:
            text = f"{self._name(step.thread)} writes {store.value} to {cell}, which holds {before} and is not armed"
            return state, Violation("not armed", text)
        return state, Violation("lost update", f"{self._name(step.thread)} clears {cell}, whose {before} nobody has read")

    def _settled(self, state: State, thread: int, log: Log) -> tuple[State, Violation | None]:
        """After what nobody else can notice."""
        program = self.programs[thread]
        while (place := state.places[thread]) < len(program):
            one = program[place]
            if isinstance(one, Store):
                cell = self.system.cells[one.cell]
                if one.payload and one.value == cell.sentinel:
                    text = f"{self._name(thread)} writes {one.value} to {cell.name} as a payload: its reader would wait on"
                    return state, Violation("payload is the sentinel", text)
                state = state._replace(buffers=_put(state.buffers, thread, (*state.buffers[thread], one)))
            elif isinstance(one, Skip):
                if not one.condition(dict(state.registers[thread])):
                    place += one.count
            elif isinstance(one, Fence) and not state.buffers[thread]:
                if log is not None:
                    log.append(f"{self._name(thread)}: {one.what}")
            else:
                break
            state = self._at(state, thread, place + 1)
        return state, None

    def _blocked(self, state: State, thread: int) -> str:
        place, program = state.places[thread], self.programs[thread]
        if place == len(program):
            return ""
        one = program[place]
        assert isinstance(one, Wait)
        value = self.seen(state, thread, one.cell)
        return f"{self._name(thread)} waits for {one.what} in {self._cell(one.cell)}, which holds {value}"

    def _name(self, thread: int) -> str:
        return self.system.threads[thread].name

    def _cell(self, cell: int) -> str:
        return self.system.cells[cell].name

    def _at(self, state: State, thread: int, place: int) -> State:
        return state._replace(places=_put(state.places, thread, place))

    def _with(self, state: State, thread: int, name: str, value: Value) -> State:
        registers = tuple(sorted({**dict(state.registers[thread]), name: value}.items(), key=lambda item: item[0]))
        return state._replace(registers=_put(state.registers, thread, registers))


def _put(values: tuple[T, ...], index: int, value: T) -> tuple[T, ...]:
    return (*values[:index], value, *values[index + 1 :])
