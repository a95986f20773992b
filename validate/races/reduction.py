"""Which of the steps that may come next are enough to look at.

Two steps of different threads that touch different cells may change places, and nobody could tell. So a step that no other thread
can ever meet is taken alone (a persistent set of one; Godefroid, "Partial-Order Methods for the Verification of Concurrent
Systems", 1996). What meets what is finer for mailboxes, since a system stops at the first violation:

- A payload becomes visible in an armed mailbox. Its readers cannot have gone on before, nor can those that arm the mailbox only
  after they have read it. It meets other payloads, and whoever may arm the mailbox without reading it first.
- A reader finds a payload. Another payload on top of it is a violation whether it comes before the reading or before the
  mailbox is armed again, and the latter is always tried. So the reading meets only whoever else may arm the mailbox.
- A mailbox that holds a payload is armed again, no other thread reads it, and nothing that its own thread still does waits for
  that: no fence, no release, no access to the mailbox. A run in which it becomes visible later has the same steps, or a violation
  that the earlier arming hides: a payload that meets a mailbox that is not armed. So it is put off while anything else can go on.

Only cells that hold nothing but mail are treated so: payloads, polls for them, and arming. Tests compare verdicts with those of
the search that leaves nothing out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from validate.races.machine import Machine, State, Step
from validate.races.system import Atomic, Fence, Instruction, Load, Store, Wait

Cells = int  # a bit a cell


@dataclass(frozen=True)
class Ahead:
    """What a thread may still do to cells. ``hasty``: arming without reading the mailbox first. ``seeing``: any other reading.

    ``waits``: all cells if it still waits for its stores, by a fence or a release.
    """

    polls: Cells
    payloads: Cells
    arming: Cells
    hasty: Cells
    writing: Cells
    seeing: Cells
    waits: Cells


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

    def of(self, state: State) -> Sequence[Step]:
        """Steps that are enough. Empty only if none is enabled."""
        steps = self._machine.enabled(state)
        if len(steps) < 2:
            return steps
        threads = [self._left(state, thread) for thread in range(len(self._machine.programs))]
        late = []
        for step in steps:
            others = threads[: step.thread] + threads[step.thread + 1 :]
            if self._alone(state, step, others):
                return [step]
            if self._may_wait(state, step, others):
                late.append(step)
        return [step for step in steps if step not in late] or steps

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
        return replace(
            left,
            payloads=left.payloads | payloads,
            arming=left.arming | arming,
            hasty=left.hasty | arming,
            writing=left.writing | writing,
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
        own = self._ahead[step.thread][state.places[step.thread]]
        later = state.buffers[step.thread][step.at + 1 :]
        gated = own.polls | own.seeing | own.writing | own.waits
        for store in later:
            gated |= ~0 if store.release else _cell(store)
        return not cell & gated and not any(cell & other.polls for other in others)

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
    found = [Ahead(0, 0, 0, 0, 0, 0, 0)]
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
                last.waits | (~0 if isinstance(one, Fence) or getattr(one, "release", False) else 0),
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
