"""All interleavings of a system's threads, up to those that no thread can tell apart, or random ones.

Breadth first, so that a counterexample is as short as any. States are kept whole and compared, not their hashes. Of steps that
commute only one order is taken (reduction.py).
"""

import random
import time
from dataclasses import dataclass

from validate.races.machine import Machine, State, Step, Violation
from validate.races.reduction import Reduction
from validate.races.system import System

Came = dict[State, tuple[State, tuple[Step, ...]] | None]  # from where, and by which steps


@dataclass(frozen=True)
class Found:
    """A violation and the steps that lead to it."""

    violation: Violation
    schedule: tuple[Step, ...]


@dataclass(frozen=True)
class Explored:
    """``complete``: there are no other states. ``states`` and ``steps`` are those that were looked at."""

    states: int
    steps: int
    seconds: float
    complete: bool
    found: Found | None


def explore(system: System, limit: int, reduce: bool = True) -> Explored:
    """Looks at states until there are no more, or more than ``limit`` of them, or a violation."""
    machine, began, steps = Machine(system), time.perf_counter(), 0
    reduction = Reduction(machine)
    start, wrong = machine.begin(None)
    came: Came = {start: None}

    def result(found: Found | None, complete: bool) -> Explored:
        return Explored(len(came), steps, time.perf_counter() - began, complete, found)

    if wrong:
        return result(Found(wrong, ()), True)
    layer = [start]
    while layer:
        following: list[State] = []
        for state in layer:
            ways = machine.enabled(state)
            if not ways and (wrong := machine.ending(state)):
                return result(Found(wrong, _path(came, state)), True)
            for way in reduction.of(state, ways) if reduce else [(step,) for step in ways]:
                after, wrong = state, None
                for number, step in enumerate(way, 1):
                    steps += 1
                    after, wrong = machine.after(after, step, None)
                    if wrong:
                        return result(Found(wrong, (*_path(came, state), *way[:number])), True)
                if after not in came:
                    came[after] = (state, way)
                    following.append(after)
            if len(came) > limit:
                return result(None, False)
        layer = following
    return result(None, True)


def walk(system: System, walks: int, seed: int) -> Explored:
    """Random schedules from the start to an end.

    In each, every thread and the visibility of its stores have a pace of their own between 1 and 1,000, drawn anew: what is
    merely unlikely among equals has its turn.
    """
    machine, began, steps = Machine(system), time.perf_counter(), 0
    for number in range(walks):
        draws = random.Random(f"{seed} {number}")
        pace = {(t, what): 10 ** draws.uniform(0, 3) for t in range(len(machine.programs)) for what in (None, "visible", "early")}
        (state, wrong), taken = machine.begin(None), list[Step]()
        while not wrong and (ways := machine.enabled(state)):
            step = draws.choices(ways, [pace[way.thread, way.what] for way in ways])[0]
            taken.append(step)
            state, wrong = machine.after(state, step, None)
        steps += len(taken)
        if wrong := wrong or machine.ending(state):
            return Explored(steps, steps, time.perf_counter() - began, False, Found(wrong, tuple(taken)))
    return Explored(steps, steps, time.perf_counter() - began, False, None)


def _path(came: Came, state: State) -> tuple[Step, ...]:
    ways: list[tuple[Step, ...]] = []
    while (before := came[state]) is not None:
        state, way = before
        ways.append(way)
    return tuple(step for way in reversed(ways) for step in way)
