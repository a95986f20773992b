"""Whether a series rises with its position."""

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]


def rises(y: Array) -> float:
    """The exact one-sided p-value of "all orders of the values are equally likely": Kendall's test against a rising trend.

    M. G. Kendall, "A new measure of rank correlation", Biometrika 30 (1938). Exact where the values are
    independent; asymptotic where some are equal.
    """
    method = "exact" if len(np.unique(y)) == len(y) else "asymptotic"
    return float(stats.kendalltau(np.arange(len(y)), y, method=method, alternative="greater").pvalue)


def exponent(steps: NDArray[np.int64], y: Array) -> float:
    """The slope of log ``y`` against log ``steps``, both positive: the median of all pairs' slopes (P. K. Sen, 1968)."""
    x, z = np.log(steps), np.log(y)
    i, j = np.triu_indices(len(y), 1)
    return float(np.median((z[j] - z[i]) / (x[j] - x[i])))
