"""Whether one arm's mean score lies above another's less a margin: items asked of both arms, the same number of times.

The items are the clusters: repeats of one depend on each other through it. An item's difference is the mean of its repeats'
scores in one arm less that in the other; the mean of all items' differences has a standard error from their variance (E. Miller,
"Adding error bars to evals", arXiv 2411.00640, sections 2 and 4) and Student's t.

Where most items are always right, few of them differ, and a sample may by chance show none: its variance then is too small.
So two flips more are counted into the variance, one each way, and none into the mean (as D. G. Bonett and R. M. Price, "Adjusted
Wald confidence interval for a difference of binomial proportions based on paired data", Journal of Educational and Behavioral
Statistics 37 (2012), count one more pair into both discordant cells). tests/stats/simulation.py measures what that gives.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from validate.stats.jackknife import Estimate
from validate.verdict import Verdict

Scores = NDArray[np.floating]
CONFIDENCE = 0.95  # of each one-sided bound
MOST_REPEATS = 100_000


@dataclass(frozen=True)
class Difference(Estimate):
    """Mean of (specialized - default) over items, which are the clusters.

    ``shared`` and ``own``: the variance of an item's difference that stays however often it is asked, and what one repeat adds
    to it, divided by the number of ``repeats``.
    """

    repeats: int
    shared: float
    own: float

    @property
    def low(self) -> float:
        """The one-sided lower bound at :data:`CONFIDENCE`."""
        return self.lower(CONFIDENCE)

    @property
    def high(self) -> float:
        """The one-sided upper bound at :data:`CONFIDENCE`."""
        return self.upper(CONFIDENCE)

    def verdict(self, margin: float) -> Verdict:
        """PASS if the lower bound is above -margin, FAIL if the upper one is below it, else INCONCLUSIVE."""
        if self.low > -margin:
            return Verdict.PASS
        return Verdict.FAIL if self.high < -margin else Verdict.INCONCLUSIVE

    def repeats_needed(self, margin: float) -> int | None:
        """How many repeats of each item, those that there are included, decide if the difference stays; None where none do."""
        away = abs(self.value + margin) / float(special.stdtrit(self.clusters - 1, CONFIDENCE))
        left = self.clusters * away**2 - self.shared
        if left <= 0.0:
            return None
        needed = max(self.repeats, int(np.ceil(self.own / left)))
        return needed if needed <= MOST_REPEATS else None


def difference(default: Scores, specialized: Scores) -> Difference:
    """Of scores [items, repeats] from 0 to 1, two items at least; a repeat has the same place in both.

    NaN is no score: that pair is left out, and an item without any pair. Items count alike however many pairs they have.

    Raises:
        ValueError: the shapes differ, or fewer than two items have a pair.
    """
    if default.shape != specialized.shape or default.ndim != 2:
        raise ValueError(f"scores of {default.shape} and {specialized.shape}: [items, repeats], the same of both, are compared")
    apart = specialized.astype(np.float64) - default
    there = ~np.isnan(apart)
    pairs = there.sum(axis=1)
    apart, there, pairs = apart[pairs > 0], there[pairs > 0], pairs[pairs > 0]
    items = len(pairs)
    if items < 2:
        raise ValueError(f"{items} items with a pair of scores: two items and one repeat of each at least")
    apart[~there] = 0.0
    of_items = apart.sum(axis=1) / pairs
    repeats = round(float(pairs.mean()))
    variance = (((of_items - of_items.mean()) ** 2).sum() + 2 / repeats**2) / (items - 1)
    several = pairs > 1
    own = variance
    if several.any():
        squares = (np.where(there, apart - of_items[:, None], 0.0)[several] ** 2).sum(axis=1)
        own = float((squares / (pairs[several] - 1)).mean())
    return Difference(
        value=float(of_items.mean()),
        error=float(np.sqrt(variance / items)),
        clusters=items,
        repeats=repeats,
        shared=float(max(0.0, variance - own / repeats)),
        own=float(max(own, 2 / repeats / (items - 1))),
    )
