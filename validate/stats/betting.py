"""Evidence that one arm loses more than a margin, which may be looked at after every whole repeat.

The null is what a FAIL refutes: the mean of (specialized - default) over the items is -margin or more. A stake ``s`` is bet
against it on every pair: the evidence is the product of 1 - s (x + margin) over the pairs' differences x from -1 to 1, with 0 <
s < 1 / (1 + margin), so that no factor is negative. Over one whole repeat of all items, whose answers are drawn independently,
its expectation is the product of 1 - s (mu_i + margin), at most exp(-s sum(mu_i + margin)), and that is at most 1 where the
items' mean of mu_i is -margin or more: however the loss lies over the items. So it is an e-process at the ends of repeats, and
so are the mean over stakes that are fixed beforehand and the mean over tasks that are asked independently. (A task that was not
looked at yet counts 1.) Ville's inequality: it ever reaches 1 / alpha with probability alpha at most. I. Waudby-Smith and A.
Ramdas, "Estimating means of bounded random variables by betting", Journal of the Royal Statistical Society B 86 (2024).

A test of "no loss at all" on discordant pairs would stop runs that the verdict passes, given enough repeats; and it holds only
where both arms share each item's distribution.
"""

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.floating]
STOP = 20.0  # 1 / alpha, alpha 0.05
# Of the largest stake possible. The best one is about (loss - margin) / variance of x: much where few pairs differ, little where
# many do. Six cost at most ln 6 = 1.8 of the ln 20 = 3.0 that are to be reached.
STAKES = np.array([0.95, 0.5, 0.25, 0.125, 0.0625, 0.03125])


def evidence(default: Scores, specialized: Scores, margin: float) -> float:
    """Of scores [items, whole repeats] from 0 to 1 against "the loss is ``margin`` at most"; 1 without any.

    A pair with NaN, which is no score, bets nothing.
    """
    away = specialized.astype(np.float64) - default + margin
    away[np.isnan(away)] = 0.0
    logs = [float(np.log1p(-stake / (1 + margin) * away).sum()) for stake in STAKES]
    return float(np.exp(min(np.logaddexp.reduce(logs) - np.log(len(logs)), 700.0)))
