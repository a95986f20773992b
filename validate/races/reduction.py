"""Which of the steps that may come next are enough to look at.

Two steps of different threads that touch different cells may change places, and nobody could tell. So a step that no other thread
can ever meet is taken alone (a persistent set of one; Godefroid, "Partial-Order Methods for the Verification of Concurrent
Systems", 1996). What meets what is finer for mailboxes, since a system stops at the first violation:

- A payload becomes visible in an armed mailbox. Its readers cannot have gone on before, nor can those that arm the mailbox only
  after they have read it. It meets other payloads, and whoever may arm the mailbox without reading it first.
- A reader finds a payload. Another payload on top of it is a violation whether it comes before the reading or before the
  mailbox is armed again, and the latter is always tried. So the reading meets only whoever else may arm the mailbox.
- A mailbox that holds a payload is armed again, and no other thread reads or arms it. A run in which that becomes visible later
  has the same steps, or a violation that the earlier arming hides: a payload that meets a mailbox that is not armed. So it is put
  off until its thread cannot go on without it (a fence, a releasing store), and comes with all else that the thread must see
  armed then: a part of it lets nobody go on.

Only cells that hold nothing but mail are treated so: payloads, polls for them, and arming. Tests compare verdicts with those of
the search that leaves nothing out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from validate.races.machine import Machine, State, Step
from validate.races.system import Atomic, Fence, Instruction, Load, Store, Wait

Cells = int  # a bit a cell


@dataclass(frozen=True)
class Ahead:
    """What a thread may still do to cells. ``hasty``: arming without reading the mailbox first. ``seeing``: any other reading."""

    polls: Cells
    payloads: Cells
    arming: Cells
    hasty: Cells
    writing: Cells
    seeing: Cells


class Reduction:
    """Of one machine's steps."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._ahead = [_ahead(program) for program in machine.programs]
        self._mail = ~0
        for program in machine.programs:
            for one in program:
                if not (_polls(one) or _payload(one) or _arms(one)):
                    self._mail &= ~_cell(one)

    def of(self, state: State, steps: Sequence[Step]) -> Sequence[tuple[Step, ...]]:
        """Ways on that are enough, each of one or more of the enabled ``steps``. Empty only if there are none."""
        if len(steps) < 2:
            return [(step,) for step in steps]
        threads = [self._left(state, thread) for thread in range(len(self._machine.programs))]
        late: list[Step] = []
        for step in steps:
            others = threads[: step.thread] + threads[step.thread + 1 :]
            if self._alone(state, step, others):
                return [(step,)]
            if self._may_wait(state, step, others):
                late.append(step)
        ways = [(step,) for step in steps if step not in late] + self._arming(state, late)
        return ways or [(late[0],)]

    def _arming(self, state: State, late: Sequence[Step]) -> list[tuple[Step, ...]]:
        """Thread by thread all arming that it must see done to go on, where it waits for nothing else to become visible."""
        ways = []
        for thread in {step.thread: None for step in late}:
            until = self._must_be_visible(state, thread)
            own = [step.at for step in late if step.thread == thread and step.at < until]
            if own and own == list(range(until)):
                ways.append((Step(thread, "visible", 0),) * len(own))  # each takes the first place of the buffer
        return ways

    def _must_be_visible(self, state: State, thread: int) -> int:
        """Up to which place in its buffer, for the thread or a releasing store of its to go on."""
        place, program, buffer = state.places[thread], self._machine.programs[thread], state.buffers[thread]
        releases = [at for at, store in enumerate(buffer) if store.release]
        if releases and releases[0]:
            return releases[0]
        one = program[place] if place < len(program) else None
        return len(buffer) if isinstance(one, Fence) or (isinstance(one, Atomic) and one.release) else 0

    def _left(self, state: State, thread: int) -> Ahead:
        """Of the program and the buffer."""
        left = self._ahead[thread][state.places[thread]]
        payloads = arming = writing = 0
        for store in state.buffers[thread]:
            payloads |= _payload(store)
            arming |= _arms(store)
            writing |= _writes(store)
        if not writing:
            return left
        return Ahead(
            left.polls, left.payloads | payloads, left.arming | arming, left.hasty | arming, left.writing | writing, left.seeing
        )

    def _alone(self, state: State, step: Step, others: Sequence[Ahead]) -> bool:
        one, cell = self._touched(state, step)
        if cell & self._mail and _payload(one):
            armed = state.memory[one.cell] == self._machine.system.cells[one.cell].sentinel
            return armed and not any(cell & (other.payloads | other.hasty) for other in others)
        if cell & self._mail and _polls(one):
            return not any(cell & other.arming for other in others)
        writes, reads = _writes(one), not isinstance(one, Store)
        met = 0
        for other in others:
            met |= (other.polls | other.seeing | other.writing) if writes else 0
            met |= other.writing if reads else 0
        return not cell & met

    def _may_wait(self, state: State, step: Step, others: Sequence[Ahead]) -> bool:
        one, cell = self._touched(state, step)
        if not (cell & self._mail and _arms(one)) or state.memory[one.cell] == self._machine.system.cells[one.cell].sentinel:
            return False
        return not any(cell & (other.polls | other.arming) for other in others)

    def _touched(self, state: State, step: Step) -> tuple[Store | Wait | Load | Atomic, Cells]:
        if step.what == "visible":
            one: Instruction = state.buffers[step.thread][step.at]
        else:
            place = step.at if step.what == "early" else state.places[step.thread]
            one = self._machine.programs[step.thread][place]
        assert isinstance(one, Store | Wait | Load | Atomic)
        return one, _cell(one)


def _ahead(program: tuple[Instruction, ...]) -> list[Ahead]:
    """By place in the program."""
    found = [Ahead(0, 0, 0, 0, 0, 0)]
    for one in reversed(program):
        last, polls = found[-1], _polls(one)
        seeing = 0 if polls or isinstance(one, Store) else _cell(one)
        found.append(
            Ahead(
                last.polls | polls,
                last.payloads | _payload(one),
                last.arming | _arms(one),
                last.hasty & ~polls | _arms(one),
                last.writing | _writes(one),
                last.seeing | seeing,
            )
        )
    return found[::-1]


def _of(kind: Callable[[Instruction], bool]) -> Callable[[Instruction], Cells]:
    return lambda one: _cell(one) if kind(one) else 0


def _cell(one: Instruction) -> Cells:
    return 1 << one.cell if isinstance(one, Store | Wait | Load | Atomic) else 0


_polls = _of(lambda one: isinstance(one, Wait) and one.mail)
_payload = _of(lambda one: isinstance(one, Store) and one.payload)
_arms = _of(lambda one: isinstance(one, Store) and one.arms)
_writes = _of(lambda one: isinstance(one, Store | Atomic))
