"""Whether one arm's items score lower than another's: the signs of their differences flipped at random."""

import numpy as np
from numpy.typing import NDArray

from validate.stats import cells

Array = NDArray[np.float64]
DRAWS = 10_000


def lower(differences: Array, seed: int = 0) -> float:
    """The one-sided p-value of "an item's difference [items], from -1 to 1, is of no size more likely negative than positive".

    So it is where both arms answer an item alike; a mean of 0 is not enough, as few large losses may hide in many small gains.
    The sum of the differences against its distribution where each has either sign alike; with one repeat of scores 0 or 1 this is
    McNemar's test but for the draws. The added one: B. Phipson and G. K. Smyth, "Permutation p-values should never be zero",
    Statistical Applications in Genetics and Molecular Biology 9 (2010).
    """
    cell = cells.of(np.abs(differences))
    negative = np.random.default_rng(seed).binomial(cell.counts, 0.5, size=(DRAWS, len(cell.counts)))
    flipped = (cell.counts - 2 * negative) @ cell.means
    found = float(differences.sum())
    return (int((flipped <= found + 1e-9 * len(differences)).sum()) + 1) / (DRAWS + 1)
