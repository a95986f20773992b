"""Many tests at once: Holm's step-down adjustment."""

import numpy as np
from numpy.typing import NDArray


def holm(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Adjusted p-values: rejecting those below alpha makes any false rejection at most alpha likely, however tests depend.

    S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979).
    """
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(steps)
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted
