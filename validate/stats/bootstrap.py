"""Intervals for medians and their ratios, clusters drawn with replacement."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
REPEATS = 1000


def interval(
    clusters: Sequence[tuple[Array, ...]], statistic: Callable[..., float], confidence: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """The percentile interval of ``statistic`` of the joined values: whole clusters are drawn, each a tuple of paired samples.

    B. Efron and R. J. Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 13; clusters: A. C. Davison and
    D. V. Hinkley, "Bootstrap Methods and their Application" (1997), section 3.8.
    """
    generator = np.random.default_rng(seed)
    n = len(clusters)
    drawn = np.empty(REPEATS)
    for repeat in range(REPEATS):
        chosen = [clusters[index] for index in generator.integers(n, size=n)]
        drawn[repeat] = statistic(*(np.concatenate(samples) for samples in zip(*chosen, strict=True)))
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return float(low), float(high)
