"""The area under the curve of means over lengths."""

from itertools import pairwise
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.comparing.curve import area, weights

BOUNDS = [8192 * 2**n for n in range(8)]
means = st.lists(st.floats(0, 1), min_size=2, max_size=8)


def area_of(values: list[float]) -> float:
    found = area(dict(zip(BOUNDS, values, strict=False)))
    assert found is not None
    return found


# Rows of Context Arena's table (2 needles, OpenAI's set), in percent: 8k to 1M, area to 128k, to 1M.
PUBLISHED = [
    ([98.7, 94.3, 89.0, 88.9, 84.1, 81.1, 72.7, 60.1], 88.5, 73.7),
    ([99.5, 97.1, 94.4, 93.9, 84.3, 83.7, 71.0, 54.1], 91.9, 72.5),
    ([98.3, 95.4, 90.2, 87.4, 87.5, 76.6, 71.6, 57.9], 89.2, 72.2),
    ([91.7, 84.9, 77.1, 76.2, 78.1, 69.9, 59.1, 53.5], 78.3, 63.2),
    ([87.6, 68.0, 70.4, 57.5, 55.5, 57.1, 55.6, 42.1], 61.6, 53.2),
]


@pytest.mark.parametrize(("values", "to_128k", "to_1m"), PUBLISHED)
def test_the_area_is_that_of_published_tables(values: list[float], to_128k: float, to_1m: float) -> None:
    """Within the rounding of the means and of the area, 0.05 each."""
    assert area_of(values[:5]) == pytest.approx(to_128k, abs=0.1)
    assert area_of(values) == pytest.approx(to_1m, abs=0.1)


def test_published_areas_are_no_other_mean() -> None:
    """A plain mean, and an area on an axis of doublings, are further away than rounding."""
    values, _, to_1m = PUBLISHED[0]
    doublings = fmean((a + b) / 2 for a, b in pairwise(values))
    assert abs(fmean(values) - to_1m) > 5
    assert abs(doublings - to_1m) > 5


@given(means, st.floats(0, 1))
def test_an_area_lies_between_its_means_and_a_flat_curve_is_its_height(values: list[float], height: float) -> None:
    assert min(values) - 1e-9 <= area_of(values) <= max(values) + 1e-9
    assert area_of([height] * len(values)) == pytest.approx(height)


@given(st.integers(2, 8), st.data())
def test_the_difference_of_areas_is_the_weighed_difference_of_means(n: int, data: st.DataObject) -> None:
    one, other = (data.draw(st.lists(st.floats(0, 1), min_size=n, max_size=n)) for _ in range(2))
    weighed = sum(weight * (a - b) for weight, a, b in zip(weights(BOUNDS[:n]).values(), one, other, strict=True))
    assert area_of(one) - area_of(other) == pytest.approx(weighed, abs=1e-12)
    assert sum(weights(BOUNDS[:n]).values()) == pytest.approx(1)


def test_the_last_two_of_eight_lengths_weigh_most() -> None:
    assert sum(list(weights(BOUNDS).values())[-2:]) == pytest.approx(0.63, abs=0.005)


def test_a_curve_with_a_gap_has_no_area() -> None:
    assert area({8192: 1.0, 32768: 0.5}) is None
    assert area({8192: 1.0}) is None
    assert area({8192: 1.0, 16384: 0.5}) == 0.75
