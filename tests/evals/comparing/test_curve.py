"""Means by needles and length, and the area under them."""

from itertools import pairwise
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.comparing.curve import Curve, curves, weights

BOUNDS = [8192 * 2**n for n in range(8)]
means = st.lists(st.floats(0, 1), min_size=2, max_size=8)


def curve(values: list[float]) -> Curve:
    scores = [(f"8 needles, {high // 2}-{high} tokens", f"{high}", value) for high, value in zip(BOUNDS, values, strict=False)]
    return curves(scores)[8]


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
    assert curve(values).area(131072) == pytest.approx(to_128k, abs=0.1)
    assert curve(values).area(1048576) == curve(values).area() == pytest.approx(to_1m, abs=0.1)


def test_published_areas_are_no_other_mean() -> None:
    """A plain mean, and an area on an axis of doublings, are further away than rounding."""
    values, _, to_1m = PUBLISHED[0]
    doublings = fmean((a + b) / 2 for a, b in pairwise(values))
    assert abs(fmean(values) - to_1m) > 5
    assert abs(doublings - to_1m) > 5


@given(means, st.floats(0, 1))
def test_an_area_lies_between_its_means_and_a_flat_curve_is_its_height(values: list[float], height: float) -> None:
    area = curve(values).area()
    assert area is not None
    assert min(values) - 1e-9 <= area <= max(values) + 1e-9
    assert curve([height] * len(values)).area() == pytest.approx(height)


@given(st.integers(2, 8), st.data())
def test_the_difference_of_areas_is_the_weighed_difference_of_means(n: int, data: st.DataObject) -> None:
    one, other = (data.draw(st.lists(st.floats(0, 1), min_size=n, max_size=n)) for _ in range(2))
    weighed = sum(weight * (a - b) for weight, a, b in zip(weights(BOUNDS[:n]).values(), one, other, strict=True))
    assert curve(one).area() - curve(other).area() == pytest.approx(weighed, abs=1e-12)
    assert sum(weights(BOUNDS[:n]).values()) == pytest.approx(1)


def test_the_last_two_of_eight_lengths_weigh_most() -> None:
    assert sum(list(weights(BOUNDS).values())[-2:]) == pytest.approx(0.63, abs=0.005)


def test_a_curve_with_a_gap_has_no_area() -> None:
    gappy = curves([("2 needles, 4096-8192 tokens", "a", 1.0), ("2 needles, 16384-32768 tokens", "b", 0.5)])[2]
    assert gappy.gaps == (16384,)
    assert gappy.area() is None
    assert gappy.area(32768) is None


def test_an_area_to_a_length_that_was_not_reached_is_none() -> None:
    assert curve([1, 0.5, 0.5]).area(1048576) is None
    assert curve([1]).area() is None
    assert curve([1, 0.5, 0.25]).area(16384) == pytest.approx(0.75)


def test_a_gap_beyond_the_asked_length_does_not_matter() -> None:
    scores = [(f"2 needles, {high // 2}-{high} tokens", f"{high}", 0.5) for high in (8192, 16384, 65536)]
    assert curves(scores)[2].area(16384) == 0.5


def test_an_item_counts_once_however_often_it_was_asked_and_what_has_no_length_is_counted_apart() -> None:
    found = curves(
        [
            ("2 needles, 4096-8192 tokens", "a", 1.0),
            ("2 needles, 4096-8192 tokens", "a", 1.0),
            ("2 needles, 4096-8192 tokens", "a", 1.0),
            ("2 needles, 4096-8192 tokens", "b", 0.0),
            ("2 needles, over 1048576 tokens", "c", 0.0),
            ("2 needles", "d", 0.0),
            ("8 needles, under 4096 tokens", "e", 0.0),
        ]
    )
    assert found[2] == Curve({8192: 0.5}, {8192: 2}, (), 2)
    assert found[8] == Curve({}, {}, (), 1)
    assert found[8].area() is None


def test_strata_of_other_benchmarks_are_refused() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        curves([("algebra", "a", 1.0)])
