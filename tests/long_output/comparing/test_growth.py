"""Growth of differences with position: found, located, and not found where there is none."""

from dataclasses import replace

import numpy as np
import pytest

from tests.long_output.made_up import NOISE, arm, arms
from validate.equivalence.compare.allowance import yardstick
from validate.equivalence.compare.arms import Arms
from validate.equivalence.compare.comparison import measure
from validate.long_output.comparing import growth
from validate.long_output.comparing.growth import BAND, Growth
from validate.verdict import Verdict


def of(made: Arms) -> Growth:
    measured = measure(made, made.pairs())
    found = growth.measure(measured.forced, measured.yardstick)
    assert found is not None
    return found


def test_sound_paths_do_not_grow() -> None:
    found = of(arms())
    assert found.verdict is Verdict.PASS
    assert found.excess is None
    assert 0.7 < found.rise < 1.4


def test_a_path_that_grows_with_the_noise_that_it_is_held_against_passes() -> None:
    made = arms(growth=5.0)
    grown = replace(made, float32=arm("float32", growth=5.0))
    assert of(made).verdict is Verdict.FAIL
    assert of(grown).verdict is Verdict.PASS


def test_slow_growth_is_found_before_any_band_is_beyond_what_is_allowed() -> None:
    found = of(arms(growth=3.0))
    assert found.verdict is Verdict.FAIL
    assert found.low > 2


@pytest.mark.parametrize("start", [64, 200, 333])
def test_a_jump_is_found_in_the_first_whole_band_behind_it(start: int) -> None:
    found = of(arms(jump=(start, 8.0)))
    assert found.verdict is Verdict.FAIL
    assert found.excess is not None
    assert start - BAND < found.excess <= start + BAND
    (finding,) = growth.judged(found).findings
    assert finding.position == found.excess


def test_too_few_or_too_short_requests_decide_nothing() -> None:
    few = Arms(*(arm(name, requests=4) for name in ("default", "default-again", "specialized", "float32")))
    short = Arms(*(arm(name, length=100) for name in ("default", "default-again", "specialized", "float32")))
    for made in (few, short):
        measured = measure(made, made.pairs())
        assert growth.measure(measured.forced, measured.yardstick) is None
    assert growth.judged(None).verdict is Verdict.INCONCLUSIVE
    assert growth.judged(None, drafts=True).verdict is None  # nothing can be forced


def test_equal_paths_have_nothing_that_grows() -> None:
    made = arms()
    same = replace(made, specialized=replace(made.default, manifest=made.specialized.manifest), float32=None)
    measured = measure(same, same.pairs())
    found = growth.measure(measured.forced, yardstick(made.default.manifest, float32=False))
    assert found is not None
    assert (found.rise, found.verdict) == (1.0, Verdict.PASS)
    assert measured.yardstick.floor / measured.yardstick.multiple < NOISE  # so that the noise of these arms is what decides


def test_where_the_default_path_repeats_itself_to_the_bit_rounding_is_the_noise() -> None:
    """Batch-invariant kernels: the A/A arm says nothing, and twice the error of rounding is granted anyway."""
    exact = replace(arms(), float32=None)
    floor = yardstick(exact.default.manifest, float32=False).floor
    assert floor > NOISE
    assert of(exact).verdict is Verdict.PASS
    assert of(replace(exact, specialized=arm("specialized", jump=(200, 12.0)))).verdict is Verdict.FAIL


def test_the_mean_logarithm_of_normal_noise_is_what_it_is_said_to_be() -> None:
    drawn = np.random.default_rng(0).normal(size=200_000) * 0.03
    assert np.log(np.abs(drawn)).mean() == pytest.approx(np.log(0.03) - growth.TYPICAL, abs=0.01)


def test_few_requests_at_the_limit_are_misjudged_as_rarely_as_declared() -> None:
    """Of 2,000 samples of ``FEWEST`` rises about what is granted 5 % pass and 0.5 % fail: 100 and 10, or some more."""
    draws = np.random.default_rng(0).normal(growth.GRANTED, 0.4, size=(2000, growth.FEWEST))
    bounds = [growth.bounds(rises) for rises in draws]
    assert sum(high < growth.GRANTED for _, high in bounds) <= 130
    assert sum(low > growth.GRANTED for low, _ in bounds) <= 20
