"""Values from -1 to 1 in cells, so that a million of them are drawn as quickly as a few."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
WIDTH = 1 / 256


@dataclass(frozen=True)
class Cells:
    """Of each cell that is not empty: how many values it holds, and their mean."""

    counts: NDArray[np.int64]
    means: Array


def of(values: Array) -> Cells:
    """The mean stays what it is; the variance loses what is within a cell: WIDTH squared / 12 = 1.3e-6 of even values.

    MRCR's items differ with a variance of 0.05 and more. A difference between two means of k scores 0 or 1 is a multiple of
    1 / k, and nothing is lost where k is below 256.
    """
    cell = np.rint((values + 1.0) / WIDTH).astype(np.int64)
    counts, sums = np.bincount(cell), np.bincount(cell, values)
    filled = counts > 0
    return Cells(counts[filled], sums[filled] / counts[filled])
