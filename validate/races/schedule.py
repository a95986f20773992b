"""A counterexample for people: as short as it gets, printed, and replayed from what was printed.

A schedule is words: ``2`` thread 2 goes on, ``2!0`` the first store in thread 2's buffer becomes visible, ``2?7`` its instruction
7, a load, happens early.
"""

import re
from dataclasses import dataclass

from validate.errors import InputError
from validate.races.machine import Machine, Step, Violation
from validate.races.system import System

SIGNS = {"!": "visible", "?": "early"}
WORD = re.compile(r"(\d+)(?:([!?])(\d+))?")


@dataclass(frozen=True)
class Replayed:
    """``lines``: what happened. ``violation``: None if nothing went wrong. ``possible``: whether every step was enabled."""

    lines: tuple[str, ...]
    violation: Violation | None
    possible: bool


def text(schedule: tuple[Step, ...]) -> str:
    """Its words."""
    signs = {what: sign for sign, what in SIGNS.items()}
    return " ".join(f"{step.thread}{signs[step.what]}{step.at}" if step.what else str(step.thread) for step in schedule)


def parse(words: str) -> tuple[Step, ...]:
    """From its words. InputError if one is none."""
    steps = []
    for word in words.split():
        if (found := WORD.fullmatch(word)) is None:
            raise InputError(f"'{word}' is no step of a schedule: 2, 2!0 or 2?7 would be")
        thread, sign, index = found.groups()
        steps.append(Step(int(thread), SIGNS[sign], int(index)) if sign else Step(int(thread)))  # type: ignore[arg-type]
    return tuple(steps)


def replay(system: System, schedule: tuple[Step, ...]) -> Replayed:
    """Takes the steps until something is wrong or they end; where none follows, the end is judged, too."""
    machine, lines = Machine(system), list[str]()
    state, wrong = machine.begin(lines)
    for step in schedule:
        if wrong:
            break
        if step.thread >= len(machine.programs) or step not in machine.of(state, step.thread):
            return Replayed(tuple(lines), None, False)
        state, wrong = machine.after(state, step, lines)
    if wrong is None and not machine.enabled(state):
        wrong = machine.ending(state)
    return Replayed((*lines, *machine.pending(state)), wrong, True)


def minimal(system: System, schedule: tuple[Step, ...]) -> tuple[Step, ...]:
    """The schedule without steps that a violation of its kind does not need: halves go first, then ever smaller parts."""
    wanted = _kind(system, schedule)
    size = max(1, len(schedule) // 2)
    while True:
        at = shorter = 0
        while at < len(schedule):
            without = schedule[:at] + schedule[at + size :]
            if _kind(system, without) == wanted:
                schedule, shorter = without, 1
            else:
                at += size
        if size == 1 and not shorter:
            return schedule
        size = max(1, size // 2)


def _kind(system: System, schedule: tuple[Step, ...]) -> str | None:
    found = replay(system, schedule)
    return found.violation.kind if found.possible and found.violation else None
