"""Scores by what results are grouped by: MRCR's needles and lengths. Descriptive: the verdict is of the primary score alone.

Strata are named as evals/tasks/lengths.py names them: ``8 needles``, ``8 needles, 8192-16384 tokens``. Of needles with several
lengths there is the area under the curve over them (``curve.py``), to 128k, as the field gives it, and to the longest.
"""

import re
from collections.abc import Iterator

import numpy as np

from evals.comparing import curve
from evals.comparing.reading import Items, Responses
from evals.records.model import TaskPlan
from evals.tasks import lengths
from validate.records.model import Record

ARMS = ("default", "specialized")
FIELD = 131_072  # tokens


class Stratum(Record):
    """Means over its items of one task. ``kind``: the named ``stratum``, all lengths of some ``needles``, or the ``area``."""

    task: str
    name: str
    kind: str
    items: int
    default: float
    specialized: float

    @property
    def difference(self) -> float:
        """Specialized less default."""
        return self.specialized - self.default


def compare(plan: TaskPlan, items: Items, default: Responses, specialized: Responses) -> list[Stratum]:
    """Of a task whose items are of more than one stratum, shorter lengths first; empty for others."""
    names = sorted(set(items.strata), key=_order)
    if len(names) < 2:
        return []
    of_row = np.array([names.index(name) for name in items.strata])
    pairs = ~np.isnan(default.scores[: len(of_row)] + specialized.scores[: len(of_row)])
    found: list[Stratum] = []
    for place, name in enumerate(names):
        rows = np.flatnonzero((of_row == place) & pairs.any(axis=1))
        if len(rows):
            means = (_mean(arm, rows, pairs) for arm in (default, specialized))
            found.append(Stratum(task=plan.name, name=name, kind="stratum", items=len(rows), **_arms(means)))
    return found + list(_over_lengths(found))


def _over_lengths(found: list[Stratum]) -> Iterator[Stratum]:
    by_needles: dict[int, dict[int, Stratum]] = {}
    for one in found:
        if parts := lengths.parts(one.name):
            by_needles.setdefault(parts[0], {})[parts[2]] = one
    for needles, of in by_needles.items():
        items = sum(one.items for one in of.values())
        weighted = (sum(getattr(one, arm) * one.items for one in of.values()) / items for arm in ARMS)
        task = next(iter(of.values())).task
        yield Stratum(task=task, name=f"{needles} needles", kind="needles", items=items, **_arms(weighted))
        for longest in sorted({min(FIELD, max(of)), max(of)}):
            to = {bound: one for bound, one in of.items() if bound <= longest}
            areas = [curve.area({bound: getattr(one, arm) for bound, one in to.items()}) for arm in ARMS]
            if max(to) == longest and (known := [area for area in areas if area is not None]):
                name, items = f"{needles} needles, to {longest} tokens", sum(one.items for one in to.values())
                yield Stratum(task=task, name=name, kind="area", items=items, **_arms(iter(known)))


def _mean(arm: Responses, rows: np.ndarray, pairs: np.ndarray) -> float:
    scores = np.where(pairs[rows], arm.scores[rows], 0.0)
    return float((scores.sum(axis=1, dtype=np.float64) / pairs[rows].sum(axis=1)).mean())


def _arms(means: Iterator[float]) -> dict[str, float]:
    return dict(zip(ARMS, means, strict=True))


def _order(name: str) -> tuple[int, int, str]:
    """Numbers as numbers: 2 needles before 8, 4096 before 16384."""
    numbers = [int(number) for number in re.findall(r"\d+", name)[:2]]
    return (*[*numbers, 0, 0][:2], name)  # type: ignore[return-value]
