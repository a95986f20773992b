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

Array = NDArray[np.float64]
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


def difference(default: Array, specialized: Array) -> Difference:
    """Of scores [items, repeats] from 0 to 1, two items at least; a repeat has the same place in both.

    Raises:
        ValueError: the shapes differ, or there are fewer than two items.
    """
    if default.shape != specialized.shape or default.ndim != 2 or default.shape[0] < 2 or default.shape[1] < 1:
        raise ValueError(f"scores of {default.shape} and {specialized.shape}: two items and one repeat of each at least")
    items, repeats = default.shape
    apart = specialized - default
    of_items = apart.mean(axis=1)
    flips = 2 / repeats**2
    variance = (((of_items - of_items.mean()) ** 2).sum() + flips) / (items - 1)
    own = float(apart.var(axis=1, ddof=1).mean()) if repeats > 1 else variance
    return Difference(
        value=float(of_items.mean()),
        error=float(np.sqrt(variance / items)),
        clusters=items,
        repeats=repeats,
        shared=float(max(0.0, variance - own / repeats)),
        own=float(max(own, 2 / repeats / (items - 1))),
    )
