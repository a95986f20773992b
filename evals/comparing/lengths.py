"""How long responses are, in both arms: a path that loses precision may think longer before it answers wrongly."""

import warnings

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from evals.comparing.reading import ERROR, UNSEEN, Responses
from evals.comparing.scores import of_items
from evals.records.model import TaskPlan
from validate.records.model import Record
from validate.stats.jackknife import Estimate

QUANTILES = (0.1, 0.5, 0.9, 0.99, 1.0)


class Lengths(Record):
    """Generated tokens of one task's responses.

    ``default`` and ``specialized``: :data:`QUANTILES` of all responses. ``ratio``: specialized / default, the geometric mean over
    items, with its 95 % interval. ``p``: Wilcoxon's signed ranks of the items' mean log ratios, two-sided; ``adjusted`` by Holm.
    ``distance``: Kolmogorov and Smirnov's between the two distributions, and its p-value for independent responses, which for
    pairs is too large rather than too small.
    """

    task: str
    default: tuple[float, ...]
    specialized: tuple[float, ...]
    ratio: float
    low: float
    high: float
    p: float
    adjusted: float
    distance: float
    distance_p: float


def compare(plan: TaskPlan, default: Responses, specialized: Responses) -> Lengths | None:
    """None where fewer than two items have a pair of lengths."""
    logs = [_logs(arm) for arm in (default, specialized)]
    if (~np.isnan(logs[0] + logs[1])).any(axis=1).sum() < 2:
        return None
    apart = of_items(logs[1], *logs) - of_items(logs[0], *logs)
    mean = Estimate(float(apart.mean()), float(apart.std(ddof=1)) / len(apart) ** 0.5, len(apart))
    p = 1.0
    if (apart != 0.0).any():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of few items, whose p-value is large enough
            p = float(stats.wilcoxon(apart).pvalue)
    tokens = [arm.tokens[~np.isnan(log)] for arm, log in zip((default, specialized), logs, strict=True)]
    distance = stats.ks_2samp(*tokens, method="asymp")
    return Lengths(
        task=plan.name,
        default=tuple(map(float, np.quantile(tokens[0], QUANTILES))),
        specialized=tuple(map(float, np.quantile(tokens[1], QUANTILES))),
        ratio=float(np.exp(mean.value)),
        low=float(np.exp(mean.lower(0.975))),
        high=float(np.exp(mean.upper(0.975))),
        p=p,
        adjusted=p,
        distance=float(distance.statistic),
        distance_p=float(distance.pvalue),
    )


def _logs(arm: Responses) -> NDArray[np.float64]:
    """Of the tokens; NaN where there is no response, or none was generated."""
    there = ~np.isin(arm.outcomes, (ERROR, UNSEEN)) & (arm.tokens > 0)
    return np.log(np.where(there, arm.tokens, np.nan))
