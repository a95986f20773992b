"""How responses end, in both arms: cut off, as a loop, without an answer. Each such response scores 0.

A rate that grows is a regression even where the score does not fall (the model would have been wrong there anyway). It is held
to the task's margin as the score is: FAIL where it is proven to have grown by more. What is proven to have grown by less is
an alarm.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from evals.comparing import scores
from evals.comparing.reading import ERROR, OUTCOMES, SCORED, UNSEEN, Responses
from evals.records.model import TaskPlan
from validate.records.model import Record
from validate.stats.noninferiority import difference
from validate.verdict import Verdict

LOOP = "loop"


class End(Record):
    """Responses of one task that end so. ``default`` and ``specialized`` count all, ``asked`` those of each arm.

    The rest is of the pairs without an error: ``low`` and ``high`` are the one-sided 95 % bounds of the rate's growth; ``p``:
    one-sided, of "no growth"; ``adjusted`` by Holm. None of an error, which is no answer, or where no pair differs.
    """

    task: str
    name: str
    default: int
    specialized: int
    asked: int
    low: float | None = None
    high: float | None = None
    p: float | None = None
    adjusted: float | None = None
    verdict: Verdict | None = None


def judge(plan: TaskPlan, default: Responses, specialized: Responses) -> Iterator[End]:
    """Of every outcome but a score, and of loops; those that neither arm has are counted and not judged."""
    for place, outcome in enumerate(OUTCOMES):
        if place != SCORED:
            yield _end(plan, outcome, default.outcomes == place, specialized.outcomes == place, _both(default, specialized))
    yield _end(plan, LOOP, default.loops, specialized.loops, _both(default, specialized))


def _end(plan: TaskPlan, name: str, default: NDArray[np.bool_], specialized: NDArray[np.bool_], both: NDArray[np.bool_]) -> End:
    counted = End(
        task=plan.name, name=name, default=int(default.sum()), specialized=int(specialized.sum()), asked=int(default.size)
    )
    if not (both & (default != specialized)).any():
        return counted
    kept = [np.where(both, ~ends, np.nan).astype(np.float32) for ends in (default, specialized)]
    try:
        found = difference(*kept)
    except ValueError:
        return counted
    p, _ = scores.lower(*kept)
    judged = Verdict.FAIL if found.verdict(plan.margin) is Verdict.FAIL else Verdict.PASS
    return counted.model_copy(update={"low": -found.high, "high": -found.low, "p": p, "adjusted": p, "verdict": judged})


def _both(default: Responses, specialized: Responses) -> NDArray[np.bool_]:
    """The pairs that have a response in both arms."""
    return np.logical_and(*(~np.isin(arm.outcomes, (ERROR, UNSEEN)) for arm in (default, specialized)))
