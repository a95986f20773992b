"""Lengths of responses: the interval of their ratio beside scipy's, and what has no length."""

import numpy as np
import pytest
from scipy import stats

from evals.comparing import lengths
from evals.comparing.reading import ERROR, SCORED, Responses
from tests.evals.comparing.arms import Task


def arm(tokens: np.ndarray) -> Responses:
    shape = tokens.shape
    outcomes = np.full(shape, SCORED, np.uint8)
    return Responses(np.ones(shape, np.float32), outcomes, tokens.astype(np.int32), np.zeros(shape, bool), np.zeros(shape, bool))


def drawn(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).lognormal(6.0, 0.4, (40, 3)).astype(int)


def test_the_interval_is_that_of_the_items_mean_log_ratios() -> None:
    plan, tokens = Task("some", np.ones((40, 3))).plan(), (drawn(0), drawn(1))
    found = lengths.compare(plan, *map(arm, tokens))
    assert found is not None
    test = stats.ttest_1samp((np.log(tokens[1]) - np.log(tokens[0])).mean(axis=1), 0.0)
    between = test.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((np.exp(between.low), np.exp(between.high)))
    assert found.default[-1] == tokens[0].max()


def test_what_was_not_generated_or_is_an_error_has_no_length() -> None:
    plan, tokens = Task("some", np.ones((40, 3))).plan(), (drawn(0), drawn(1))
    with_gaps = arm(np.where(np.arange(40)[:, None] == 0, 0, tokens[1]))
    with_gaps.outcomes[1] = ERROR
    found = lengths.compare(plan, arm(tokens[0]), with_gaps)
    without = lengths.compare(plan, arm(tokens[0][2:]), arm(tokens[1][2:]))
    assert found is not None
    assert without is not None
    assert (found.ratio, found.low, found.p) == pytest.approx((without.ratio, without.low, without.p))
    assert found.specialized == without.specialized
