"""Jackknife, bootstrap and prediction limits against what is known exactly or by simulation."""

import numpy as np
import pytest

from validate.stats.bootstrap import interval
from validate.stats.jackknife import jackknife
from validate.stats.prediction import largest_log


def test_the_jackknife_of_a_mean_is_its_standard_error() -> None:
    values = np.random.default_rng(0).normal(size=(17, 1))
    estimate = jackknife(values, lambda means: means[..., 0])
    assert estimate.value == pytest.approx(values.mean())
    assert estimate.error == pytest.approx(values.std(ddof=1) / 17**0.5)


def test_its_intervals_hold_for_a_ratio_of_dependent_sums() -> None:
    """The true ratio is 1. Of skewed values the lower bound, which a failure rests on, misses less often than the upper one."""
    generator = np.random.default_rng(1)
    missed = np.zeros(2)
    for _ in range(1000):
        shared = generator.gamma(4.0, size=30)
        sums = np.stack([shared * generator.gamma(9.0, size=30), shared * 9.0], axis=1)
        estimate = jackknife(sums, lambda means: means[..., 0] / means[..., 1])
        missed += [estimate.upper(0.95) < 1, estimate.lower(0.95) > 1]
    upper, lower = missed / 1000
    assert 0.02 < lower < 0.05 < upper < 0.1


def test_no_spread_is_decided_by_the_value() -> None:
    still = jackknife(np.full((5, 1), -0.5), lambda means: means[..., 0])
    assert (still.above(), still.upper(0.95), still.above(-1.0)) == (1.0, -0.5, 0.0)


def test_clusters_needed() -> None:
    values = np.array([[-1.0], [1.0]] * 10) - 0.2
    estimate = jackknife(values, lambda means: means[..., 0])
    assert estimate.upper(0.95) > 0
    assert estimate.clusters_needed(0.95) == int(np.ceil(20 * (1.729 * estimate.error / 0.2) ** 2))
    assert jackknife(-values, lambda means: means[..., 0]).clusters_needed(0.95) is None


def test_a_bootstrap_interval_of_a_ratio_of_medians() -> None:
    generator = np.random.default_rng(2)
    first, second = generator.normal(10, 1, size=40), generator.normal(5, 1, size=40)
    low, high = interval((first, second), lambda a, b: np.median(b, axis=-1) / np.median(a, axis=-1))
    assert low < 0.5 < high
    assert high - low < 0.2


@pytest.mark.parametrize("count", [10, 40, 200])
def test_the_largest_of_further_values_exceeds_its_limit_no_more_often_than_said(count: int) -> None:
    generator = np.random.default_rng(count)
    samples = generator.normal(size=(2, 1500, count))
    beyond = [further.max() > largest_log(sample, 0.05).value for sample, further in zip(*samples, strict=True)]
    assert np.mean(beyond) < 0.06


def test_values_near_zero_do_not_widen_the_limit() -> None:
    logs = np.random.default_rng(3).normal(size=60)
    assert largest_log(np.where(logs < np.median(logs), logs - 30, logs), 0.01).value == pytest.approx(
        largest_log(logs, 0.01).value
    )


def test_a_limit_that_is_moved_by_a_median_ignores_an_outlier() -> None:
    limit = largest_log(np.random.default_rng(4).normal(size=60), 0.01)
    differences = np.array([0.5, 0.6, 0.4, 0.5, 0.55, 0.45, 0.5])
    assert limit.moved(differences) == pytest.approx(limit.moved(np.array([*differences[:-1], 40.0])), abs=0.05)
