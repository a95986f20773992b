"""Verdicts on benchmarks' scores: error rates by simulation (more of them: tests/stats/simulation.py), and examples by hand."""

import numpy as np
import pytest
from scipy import stats

from tests.stats.simulation import SETTINGS, Setting, rates, scores
from validate.stats.discordant import mcnemar
from validate.stats.noninferiority import difference
from validate.verdict import Verdict

TRIALS = 1500
# Two standard deviations above 5 % in so many trials.
RARE = 0.05 + 2 * (0.05 * 0.95 / TRIALS) ** 0.5


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_error_rates(setting: Setting) -> None:
    at_margin = rates(setting, setting.margin, TRIALS)
    assert at_margin["PASS"] <= RARE
    assert at_margin["FAIL"] <= RARE
    assert rates(setting, 0.0, TRIALS)["FAIL"] <= 0.002


def test_a_fixed_standard_deviation_would_let_a_loss_pass_that_is_found_here() -> None:
    gsm8k = next(setting for setting in SETTINGS if setting.name.startswith("GSM8K"))
    found = rates(gsm8k, 0.02, TRIALS)
    assert found["FAIL"] > 0.4
    assert found["elsewhere"] < 0.05


def test_the_bounds_cover() -> None:
    draws, covered = np.random.default_rng(3), 0
    setting = SETTINGS[2]
    for _ in range(TRIALS):
        found = difference(*scores(setting, 0.01, draws))
        covered += found.low <= -0.01 <= found.high
    assert abs(covered / TRIALS - 0.9) < 0.03


def test_an_example_by_hand() -> None:
    default = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    specialized = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0], [0.0, 1.0]])
    found = difference(default, specialized)
    assert found.value == pytest.approx((-0.5 + 0.5 + 0.0 - 0.5) / 4)
    squares = ((np.array([-0.5, 0.5, 0.0, -0.5]) + 0.125) ** 2).sum() + 2 / 4
    assert found.error == pytest.approx((squares / 3 / 4) ** 0.5)
    assert found.high - found.value == pytest.approx(stats.t.ppf(0.95, 3) * found.error)
    assert (found.clusters, found.repeats) == (4, 2)


def test_no_difference_in_few_items_is_no_proof() -> None:
    right = np.ones((30, 1))
    found = difference(right, right)
    assert found.value == 0.0
    assert found.verdict(0.02) is Verdict.INCONCLUSIVE
    assert difference(np.ones((1319, 1)), np.ones((1319, 1))).verdict(0.02) is Verdict.PASS


def test_the_repeats_that_are_said_to_be_needed_decide() -> None:
    setting, draws = Setting("", 200, 2, 0.9, 0.3, 0.015), np.random.default_rng(0)
    found = difference(*scores(setting, 0.0, draws))
    while found.verdict(setting.margin) is not Verdict.INCONCLUSIVE or found.value < 0:
        found = difference(*scores(setting, 0.0, draws))
    needed = found.repeats_needed(setting.margin)
    assert needed is not None
    assert needed > 2
    decided = 0
    for seed in range(40):
        more = Setting("", 200, needed, 0.9, 0.3, 0.015)
        apart = difference(*scores(more, -found.value, np.random.default_rng(seed)))
        decided += apart.verdict(setting.margin) is Verdict.PASS
    assert decided >= 10  # the difference itself is drawn anew: about half of the time it is as large


def test_repeats_do_not_decide_what_differs_from_item_to_item() -> None:
    draws = np.random.default_rng(1)
    of_items = draws.normal(size=(40, 1)) * 0.3
    default = np.full((40, 8), 0.5)
    found = difference(default, default + of_items + draws.normal(size=(40, 8)) * 0.01)
    assert found.shared > 100 * found.own / 8
    assert found.repeats_needed(0.02) is None


def test_a_pair_without_a_score_is_left_out() -> None:
    draws = np.random.default_rng(2)
    default, specialized = scores(SETTINGS[2], 0.01, draws)
    whole = difference(default, specialized)
    holes = np.full((3, default.shape[1]), np.nan)
    padded = difference(np.concatenate([default, holes]), np.concatenate([specialized, np.ones_like(holes)]))
    assert padded == whole
    default[5, 3] = specialized[7, 4] = np.nan
    found = difference(default, specialized)
    by_hand = np.array([np.nanmean(row) for row in specialized - default])
    assert found.value == pytest.approx(by_hand.mean())
    assert found.error == pytest.approx((((by_hand - by_hand.mean()) ** 2).sum() + 2 / 16**2) ** 0.5 / (197 * 198) ** 0.5)


@pytest.mark.parametrize("shapes", [((1, 3), (1, 3)), ((3, 2), (3, 1)), ((3, 0), (3, 0))])
def test_scores_that_are_no_pairs_are_refused(shapes) -> None:
    with pytest.raises(ValueError, match=r"are compared|two items and one repeat of each at least"):
        difference(*(np.zeros(shape) for shape in shapes))


@pytest.mark.parametrize(("default_only", "specialized_only", "p"), [(5, 0, 0.031), (7, 1, 0.035), (20, 10, 0.049), (0, 0, 1.0)])
def test_mcnemar(default_only: int, specialized_only: int, p: float) -> None:
    assert mcnemar(default_only, specialized_only) == pytest.approx(p, abs=5e-4)


def test_items_count_alike_however_many_pairs_they_have() -> None:
    """Differences 1, -1/2 and 0, of one, two and three pairs; the fourth item has none."""
    none = np.nan
    default = np.array([[0.0, none, 1.0], [1.0, 1.0, none], [1.0, 0.0, 1.0], [none, 1.0, none]])
    specialized = np.array([[1.0, 0.0, none], [1.0, 0.0, none], [1.0, 0.0, 1.0], [1.0, none, 0.0]])
    found = difference(default, specialized)
    assert (found.clusters, found.repeats) == (3, 2)
    assert found.value == pytest.approx(0.5 / 3)
    squares = (1 - 0.5 / 3) ** 2 + (0.5 + 0.5 / 3) ** 2 + (0.5 / 3) ** 2
    assert found.error == pytest.approx(((squares + 2 / 2**2) / 2 / 3) ** 0.5)
