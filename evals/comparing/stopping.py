"""Whether a run has failed before it ends: evidence of two arms, of which the specialized one may be half recorded.

It is looked at after whole repeats of a task, as often as one likes (``validate/stats/betting.py`` has the equation and why it
holds). Tasks are asked one after the other: a run may stop where the mean of all planned tasks' e-values reaches STOP. That is
never later than asking one task's for STOP times their number, as Bonferroni would, and no run whose losses are all within the
margins stops with a probability above 5 %, looks and tasks together. ``tests/evals/comparing/simulation.py`` has the rates.
"""

from collections.abc import Sequence

import numpy as np

from evals.comparing.reading import UNSEEN, Arm
from validate.records.model import Record
from validate.stats import betting


class Evidence(Record):
    """``value``: the e-value of one task's loss beyond its margin, of the ``repeats`` that both arms have whole; else 1."""

    task: str
    repeats: int
    planned: int
    value: float


def evidence(default: Arm, specialized: Arm) -> list[Evidence]:
    """Of every planned task, by the default arm's plan."""
    found = []
    for plan in default.manifest.tasks:
        ours, theirs = (arm.tasks[plan.name] for arm in (default, specialized))
        whole = np.logical_and(*((arm.outcomes != UNSEEN).all(axis=0) for arm in (ours, theirs)))
        value = betting.evidence(ours.scores[:, whole], theirs.scores[:, whole], plan.margin)
        found.append(Evidence(task=plan.name, repeats=int(whole.sum()), planned=plan.repeats, value=value))
    return found


def together(found: Sequence[Evidence]) -> float:
    """The e-value of the run."""
    return sum(one.value for one in found) / len(found) if found else 1.0


def stops(found: Sequence[Evidence]) -> bool:
    """Whether the run may stop for failure."""
    return together(found) >= betting.STOP


def says(found: Sequence[Evidence]) -> str:
    """The e-values in a line."""
    of = ", ".join(f"{one.task} {one.value:.3g} after {one.repeats} of {one.planned} repeats" for one in found)
    return f"e-value {together(found):.3g} of {betting.STOP:g} to stop for failure: {of}"
