"""Intervals for statistics of clusters, drawn with replacement."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from validate.stats import cells

Array = NDArray[np.float64]
REPEATS = 2000


def interval(
    samples: tuple[Array, ...], statistic: Callable[..., Array], confidence: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """The percentile interval of ``statistic`` of paired samples [clusters], one value a cluster in each.

    ``statistic`` takes [repeats, clusters] of each sample and gives [repeats]. B. Efron and R. J. Tibshirani, "An Introduction
    to the Bootstrap" (1993), chapter 13.
    """
    clusters = len(samples[0])
    drawn = np.random.default_rng(seed).integers(clusters, size=(REPEATS, clusters))
    tail = (1 - confidence) / 2
    low, high = np.quantile(statistic(*(sample[drawn] for sample in samples)), [tail, 1 - tail])
    return float(low), float(high)


def of_mean(values: Array, confidence: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """The percentile interval of the mean of ``values`` [clusters], of any number of them.

    Equal values are drawn together, their counts being multinomial, and so are those of one cell (``cells.py``).
    """
    cell = cells.of(values)
    counts = np.random.default_rng(seed).multinomial(len(values), cell.counts / len(values), size=REPEATS)
    tail = (1 - confidence) / 2
    low, high = np.quantile(counts @ cell.means / len(values), [tail, 1 - tail])
    return float(low), float(high)
