"""A statistic of clusters and its standard error: one cluster left out at a time.

What belongs to one cluster (the positions of one request) may depend on each other in any way; clusters are independent.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A figure with its standard error and the number of clusters that it rests on, two at least."""

    value: float
    error: float
    clusters: int

    def above(self, bound: float = 0.0) -> float:
        """The one-sided p-value of "it is at most ``bound``", from Student's t with ``clusters`` - 1 degrees of freedom."""
        if self.error == 0.0:
            return float(self.value <= bound)
        return float(special.stdtr(self.clusters - 1, (bound - self.value) / self.error))

    def upper(self, confidence: float) -> float:
        """The one-sided upper bound."""
        return self.value + float(special.stdtrit(self.clusters - 1, confidence)) * self.error

    def lower(self, confidence: float) -> float:
        """The one-sided lower bound."""
        return self.value - float(special.stdtrit(self.clusters - 1, confidence)) * self.error

    def clusters_needed(self, confidence: float) -> int | None:
        """How many clusters of this kind put the upper bound below 0, if the figure stays; None where none would."""
        if self.value >= 0.0:
            return None
        quantile = float(special.stdtrit(self.clusters - 1, confidence))
        return int(np.ceil(self.clusters * (quantile * self.error / self.value) ** 2))


def jackknife(sums: Array, statistic: Callable[[Array], Array]) -> Estimate:
    """``statistic`` of the columns' means over clusters, ``sums`` being one row a cluster [clusters, columns].

    ``statistic`` takes [..., columns] and gives [...]. The variance is (n - 1) / n times the sum of squares of the
    leave-one-out figures about their mean: B. Efron and C. Stein, "The jackknife estimate of variance", Annals of Statistics 9
    (1981), who show that it overstates the variance on average. Of skewed
    figures (squares) of 30 clusters the lower 95 % bound misses in 3 % of samples, the upper one in 8 % (tests/stats).
    """
    n = len(sums)
    total = sums.sum(axis=0)
    left = statistic((total - sums) / (n - 1))
    variance = (n - 1) / n * ((left - left.mean()) ** 2).sum()
    return Estimate(float(statistic(total / n)), float(np.sqrt(variance)), n)
