"""The items whose scores differ between the arms, the largest differences first: what a person looks at. Names only."""

from collections.abc import Iterator

import numpy as np

from evals.comparing.reading import Items, Responses
from evals.records.model import TaskPlan
from validate.records.model import Record

KEPT = 1000  # of each task


class Flipped(Record):
    """One item: sums of its scores over the ``pairs`` that both arms have one of; of scores 0 or 1, how often it is right."""

    task: str
    item: str
    stratum: str
    pairs: int
    default: float
    specialized: float


def count(default: Responses, specialized: Responses) -> int:
    """How many items differ in sum."""
    return int((_apart(default, specialized) != 0).sum())


def table(plan: TaskPlan, items: Items, default: Responses, specialized: Responses) -> Iterator[Flipped]:
    """The :data:`KEPT` that differ most; of equal ones the losses, then as they were first answered."""
    apart = _apart(default, specialized)
    names = list(items.rows)
    pairs = ~np.isnan(default.scores + specialized.scores)
    for row in np.lexsort((apart, -np.abs(apart)))[:KEPT]:
        if apart[row] == 0:
            return
        sums = (float(np.where(pairs[row], arm.scores[row], 0).sum()) for arm in (default, specialized))
        yield Flipped(
            task=plan.name,
            item=names[row],
            stratum=items.strata[row],
            pairs=int(pairs[row].sum()),
            **dict(zip(("default", "specialized"), sums, strict=True)),
        )


def _apart(default: Responses, specialized: Responses) -> np.ndarray:
    return np.nan_to_num(specialized.scores.astype(np.float64) - default.scores).sum(axis=1)
