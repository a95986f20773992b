"""The verdict on one task's primary score, and what stands beside it."""

import numpy as np
from numpy.typing import NDArray

from evals.comparing.reading import Responses
from evals.records.model import TaskPlan
from validate.records.model import Record
from validate.stats import bootstrap, flips
from validate.stats.discordant import mcnemar
from validate.stats.noninferiority import CONFIDENCE, Difference, difference
from validate.verdict import Verdict

Scores = NDArray[np.floating]
DETECTED = 0.842  # the normal quantile of 80 %


class Task(Record):
    """The primary score of one task, from 0 to 1, of the pairs that have one in both arms.

    ``pairs`` of ``asked``. ``default`` and ``specialized``: means over items. ``difference``: specialized less default; ``low``
    and ``high`` are its one-sided 95 % bounds, which the verdict rests on, ``bootstrap`` those by drawing items. ``p``:
    one-sided, of "no lower", by ``test``; ``adjusted`` by Holm for all tasks. ``default_only`` and ``specialized_only`` count
    pairs in which that arm scores higher. ``lost``: the share of pairs with an error in the specialized arm alone. ``found``:
    the loss that so many responses of such a spread fail with probability 80 %. ``verdict``: None where the records are no
    proof. ``again``: the A/A arm less the default one, with its bounds.
    """

    name: str
    metric: str
    margin: float
    items: int
    repeats: int
    pairs: int
    asked: int
    default: float
    specialized: float
    difference: float
    low: float
    high: float
    bootstrap: tuple[float, float]
    test: str
    p: float
    adjusted: float
    default_only: int
    specialized_only: int
    lost: float
    found: float
    verdict: Verdict | None
    repeats_needed: int | None
    again: tuple[float, float, float] | None

    @property
    def says(self) -> str:
        """The figures in a line, in points."""
        of = f"{points(self.difference)} points ({points(self.low)} to {points(self.high)})"
        return f"{100 * self.specialized:.2f} against {100 * self.default:.2f}: {of}, margin {100 * self.margin:g}"


def judge(plan: TaskPlan, default: Responses, specialized: Responses, again: Responses | None, lost: float) -> Task | None:
    """None where fewer than two items have a pair. The A/A arm sets nothing; ``adjusted`` is put in when all tasks are known."""
    ours, theirs = default.scores, specialized.scores
    try:
        found = difference(ours, theirs)
    except ValueError:
        return None
    means = [of_items(scores, ours, theirs) for scores in (ours, theirs)]
    p, test = lower(ours, theirs)
    of_pairs = ~np.isnan(ours) & ~np.isnan(theirs)
    return Task(
        name=plan.name,
        metric=plan.metric,
        margin=plan.margin,
        items=found.clusters,
        repeats=plan.repeats,
        pairs=int(of_pairs.sum()),
        asked=ours.size,
        default=float(means[0].mean()),
        specialized=float(means[1].mean()),
        difference=found.value,
        low=found.low,
        high=found.high,
        bootstrap=bootstrap.of_mean(means[1] - means[0], 2 * CONFIDENCE - 1),
        test=test,
        p=p,
        adjusted=p,
        default_only=int((ours > theirs).sum()),
        specialized_only=int((theirs > ours).sum()),
        lost=lost,
        found=detected(found, plan.margin, int(of_pairs.sum())),
        verdict=verdict(found, plan.margin, lost),
        repeats_needed=found.repeats_needed(plan.margin),
        again=None if again is None else _again(ours, again.scores),
    )


def verdict(found: Difference, margin: float, lost: float) -> Verdict:
    """The verdict of non-inferiority. For a PASS every error of the specialized arm alone counts as a right answer lost."""
    judged = found.verdict(margin)
    if judged is Verdict.PASS and found.low - lost <= -margin:
        return Verdict.INCONCLUSIVE
    return judged


def detected(found: Difference, margin: float, pairs: int) -> float:
    """The true loss that fails such a run with probability 80 %: beyond the margin by ``c`` standard errors.

    ``c`` is Student's quantile of the bound and the normal one of 80 %. An answer that is lost adds a difference of 1, so that a
    loss greater by ``x`` than the one that the run shows adds ``x`` / ``pairs`` to the squared error, at most. The square of the
    loss beyond the margin is then ``c`` squared times this sum, which is linear in it.
    """
    squared = ((found.upper(CONFIDENCE) - found.value) / found.error + DETECTED) ** 2
    shown = found.error**2 + max(0.0, margin + found.value) / pairs
    return float(margin + squared / pairs / 2 + (squared**2 / pairs**2 / 4 + squared * shown) ** 0.5)


def of_items(scores: Scores, *arms: Scores) -> NDArray[np.float64]:
    """Means over the repeats that both arms have a score of, of the items that have any."""
    there = ~np.isnan(sum(arms))
    some = there.any(axis=1)
    kept = np.where(there, scores, 0.0)[some].sum(axis=1, dtype=np.float64)
    return np.asarray(kept / there[some].sum(axis=1))


def lower(default: Scores, specialized: Scores) -> tuple[float, str]:
    """The one-sided p-value of "the specialized arm scores no lower", and its test.

    McNemar's exact one for one repeat of scores 0 or 1; the signs of items' differences flipped where there are more repeats or a
    ratio is scored, as what belongs to one item is not independent.
    """
    if default.shape[1] == 1 and all(np.isin(scores[~np.isnan(scores)], (0, 1)).all() for scores in (default, specialized)):
        return mcnemar(int((default > specialized).sum()), int((specialized > default).sum())), "McNemar, exact"
    return flips.lower(
        of_items(specialized, default, specialized) - of_items(default, default, specialized)
    ), "signs of items flipped"


def points(share: float) -> str:
    """A difference in points of 100, with its sign."""
    return f"{100 * share:+.2f}"


def _again(default: Scores, again: Scores) -> tuple[float, float, float] | None:
    try:
        found = difference(default, again)
    except ValueError:
        return None
    return found.value, found.low, found.high
