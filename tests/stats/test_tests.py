"""Holm's adjustment, slopes, swapped pairs."""

import numpy as np
import pytest

from validate.stats.holm import holm
from validate.stats.slope import theil_sen
from validate.stats.swaps import distributions_differ


def test_holm_of_an_example_by_hand() -> None:
    assert holm(np.array([0.01, 0.04, 0.03, 0.005])) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert len(holm(np.array([]))) == 0


def test_holm_holds_its_rate_where_all_hypotheses_are_true() -> None:
    p = np.random.default_rng(0).random((2000, 25))
    assert np.mean([holm(row).min() < 0.05 for row in p]) < 0.06


def test_one_wild_point_does_not_bend_a_slope() -> None:
    line = 0.5 * np.arange(8.0)
    line[3] = 100.0
    assert theil_sen(line) == pytest.approx(0.5)


def test_swapped_pairs() -> None:
    generator = np.random.default_rng(1)
    first = generator.normal(size=30)
    assert distributions_differ(first, first + generator.normal(size=30) * 0.1) > 0.05
    assert distributions_differ(first, first * 3) < 0.2
    assert distributions_differ(first, first + 1.5) < 0.001
