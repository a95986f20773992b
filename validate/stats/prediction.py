"""How large the largest of further values may be, from a sample of values of the same kind."""

import numpy as np
from numpy.typing import NDArray
from scipy import stats


def largest_log(logs: NDArray[np.float64], alpha: float) -> float:
    """The bound that the largest of as many further logarithms exceeds with probability ``alpha``.

    The normal prediction limit for all of m further observations (G. J. Hahn, "Factors for calculating two-sided prediction
    intervals for samples from a normal distribution", JASA 64 (1969), by Bonferroni's inequality), with the median as the centre
    and the root mean square above it as the spread: values near zero have logarithms far below the others, which say nothing
    of how large a value can be.
    """
    n = len(logs)
    centre = float(np.median(logs))
    above = logs[logs > centre] - centre
    spread = float(np.sqrt(np.mean(above**2))) if len(above) else 0.0
    return centre + float(stats.t.isf(alpha / n, max(n // 2, 1))) * float(np.sqrt(1 + 1 / n)) * spread
