"""Kendall's test against a rising trend, and the exponent of a power law."""

import math

import numpy as np
import pytest

from validate.stats.trend import exponent, rises


def test_the_least_p_value_is_one_order_of_all() -> None:
    assert rises(np.arange(6.0)) == pytest.approx(1 / math.factorial(6))
    assert rises(np.arange(6.0)[::-1]) == pytest.approx(1.0)


def test_equal_values_are_no_trend() -> None:
    assert rises(np.array([1.0, 1.0, 2.0, 2.0, 1.0, 1.0])) > 0.2


def test_alarms_come_as_often_as_p_says() -> None:
    """2,000 series of 12 independent values: 5 % with p below 0.05, within three standard errors, and no more (discrete p)."""
    generator = np.random.default_rng(0)
    p = np.array([rises(generator.standard_normal(12)) for _ in range(2000)])
    assert 0.02 < (p < 0.05).mean() < 0.05 + 3 * (0.05 * 0.95 / 2000) ** 0.5


def test_the_exponent_of_a_power_law() -> None:
    steps = np.array([10, 20, 50, 300, 1000])
    y = steps**0.5
    y[2] *= 100  # one outlier of five
    assert exponent(steps, y) == pytest.approx(0.5, abs=0.05)
