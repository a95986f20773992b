"""How long outputs are, paired by prompt: a path that loses precision may say more before it ends, or end before it is done.

The mean log ratio of lengths is held to log(1 + length) either way, at one-sided 95 % bounds each (two one-sided tests): MLPerf's
TEST09 asks the mean length to be within 10 % of the reference's. Lengths of samples vary, so that the A/A arm's ratio is shown
beside it.
"""

import math
import warnings
from collections.abc import Sequence

import numpy as np
from scipy import stats

from validate.equivalence.compare.arms import Pair
from validate.records.model import Record
from validate.stats.jackknife import Estimate
from validate.stats.swaps import distributions_differ
from validate.verdict import Verdict

QUANTILES = (0.1, 0.5, 0.9, 1.0)


class Lengths(Record):
    """Tokens of the model's own. ``default``, ``again``, ``specialized``: their ``QUANTILES``.

    ``ratio``: specialized / default, geometric mean, with one-sided 95 % bounds ``low`` and ``high``; ``ratio_again`` of the A/A
    arm. ``granted``: by how much the ratio may differ from 1. p-values: ``wilcoxon`` of the signed ranks, ``distributions`` of
    the largest distance of the distributions, members of pairs swapped.
    """

    outputs: int
    default: tuple[float, ...]
    again: tuple[float, ...]
    specialized: tuple[float, ...]
    ratio: float
    low: float
    high: float
    ratio_again: float
    granted: float
    wilcoxon: float
    distributions: float
    verdict: Verdict


def compare(pairs: Sequence[Pair], granted: float) -> Lengths:
    """Two pairs at least."""
    own = np.array([[_own(t.own) for t in (pair.default, pair.again, pair.specialized)] for pair in pairs], dtype=np.float64)
    logs = np.log(np.maximum(own, 1.0))
    apart = logs[:, 2] - logs[:, 0]
    # An item more with a ratio as granted, each way, as noninferiority counts two flips: pairs that happen to be equal say
    # nothing of how lengths vary.
    most = math.log1p(granted)
    variance = (((apart - apart.mean()) ** 2).sum() + 2 * (most / len(apart)) ** 2) / (len(apart) - 1)
    mean = Estimate(float(apart.mean()), float(np.sqrt(variance / len(apart))), len(apart))
    low, high = mean.lower(0.95), mean.upper(0.95)
    verdict = Verdict.INCONCLUSIVE
    if -most < low and high < most:
        verdict = Verdict.PASS
    elif low > most or high < -most:
        verdict = Verdict.FAIL
    p = 1.0
    if apart.any():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of few pairs, whose p-value is large enough
            p = float(stats.wilcoxon(apart).pvalue)
    quantiles = [tuple(map(float, np.quantile(column, QUANTILES))) for column in own.T]
    return Lengths(
        outputs=len(pairs),
        default=quantiles[0],
        again=quantiles[1],
        specialized=quantiles[2],
        ratio=math.exp(mean.value),
        low=math.exp(low),
        high=math.exp(high),
        ratio_again=math.exp(float((logs[:, 1] - logs[:, 0]).mean())),
        granted=granted,
        wilcoxon=p,
        distributions=distributions_differ(own[:, 0], own[:, 2]),
        verdict=verdict,
    )


def _own(stretches: Sequence[tuple[int, int]]) -> int:
    return sum(end - start for start, end in stretches)
