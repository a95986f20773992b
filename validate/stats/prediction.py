"""How large the largest of further values may be, from a sample of values of the same kind."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Limit:
    """Of further logarithms: ``centre``, ``spread``, and how many spreads the largest exceeds with the chosen probability."""

    centre: float
    spread: float
    quantile: float

    @property
    def value(self) -> float:
        """The bound of the largest."""
        return self.centre + self.quantile * self.spread

    def moved(self, differences: Array) -> float:
        """The bound where further values are moved by an unknown amount: the median of these paired differences, with its error.

        The error is that of the median of normal values: sqrt(pi / 2) * deviation / sqrt(n).
        """
        by = float(np.median(differences))
        error = 1.2533 * deviation(differences) / len(differences) ** 0.5
        return self.centre + by + self.quantile * float(np.hypot(self.spread, error))


def deviation(values: Array) -> float:
    """The standard deviation of normal values by the median absolute one, which outliers do not move: 1.4826 MAD."""
    return 1.4826 * float(np.median(np.abs(values - np.median(values))))


def largest_log(logs: Array, alpha: float) -> Limit:
    """What the largest of as many further logarithms exceeds with probability ``alpha``.

    The normal prediction limit for all of m further observations (G. J. Hahn, "Factors for calculating two-sided prediction
    intervals for samples from a normal distribution", JASA 64 (1969), by Bonferroni's inequality), with the median as the centre
    and the root mean square above it as the spread: values near zero have logarithms far below the others, which say nothing
    of how large a value can be.
    """
    n = len(logs)
    centre = float(np.quantile(logs, 0.5, method="higher"))
    above = logs[logs > centre] - centre
    spread = float(np.sqrt(np.mean(above**2) * (1 + 1 / n))) if len(above) else 0.0
    return Limit(centre, spread, float(stats.t.isf(alpha / n, max(n // 2, 1))))
