"""A slope that outliers do not bend."""

import numpy as np
from numpy.typing import NDArray


def theil_sen(y: NDArray[np.float64]) -> float:
    """The median of the slopes between all pairs of equally spaced points, a step as the unit.

    P. K. Sen, "Estimates of the regression coefficient based on Kendall's tau", JASA 63 (1968): up to 29 % of the points may be
    anything.
    """
    i, j = np.triu_indices(len(y), 1)
    return float(np.median((y[j] - y[i]) / (j - i)))
