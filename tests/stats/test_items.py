"""Cells, means drawn, signs flipped, bets: of items' differences, against what is known exactly or by simulation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from tests.stats.simulation import SETTINGS, Setting, scores
from validate.stats import betting, bootstrap, cells, flips
from validate.stats.discordant import mcnemar

DIFFERENCES = arrays(np.float64, st.integers(1, 60), elements=st.floats(-1, 1))


@given(DIFFERENCES)
@settings(deadline=None)
def test_cells_keep_the_mean_and_nearly_the_variance(values: np.ndarray) -> None:
    cell = cells.of(values)
    assert cell.counts.sum() == len(values)
    mean = (cell.counts * cell.means).sum() / len(values)
    assert mean == pytest.approx(values.mean(), abs=1e-12)
    variance = (cell.counts * (cell.means - mean) ** 2).sum() / len(values)
    assert -1e-12 <= values.var() - variance <= cells.WIDTH**2 / 4


@pytest.mark.parametrize("repeats", [1, 3, 32])
def test_a_drawn_mean_is_that_of_drawing_items(repeats: int) -> None:
    draws = np.random.default_rng(repeats)
    values = np.rint(draws.normal(size=200) * 0.2 * repeats).clip(-repeats, repeats) / repeats
    drawn = values[draws.integers(200, size=(20_000, 200))].mean(axis=1)
    assert bootstrap.of_mean(values, 0.9) == pytest.approx(tuple(np.quantile(drawn, [0.05, 0.95])), abs=0.004)


@pytest.mark.parametrize(("default_only", "specialized_only"), [(5, 0), (20, 10), (10, 20), (0, 0), (1, 0)])
def test_flipped_signs_of_single_pairs_are_mcnemars_test(default_only: int, specialized_only: int) -> None:
    differences = np.repeat([-1.0, 1.0, 0.0], [default_only, specialized_only, 50])
    assert flips.lower(differences) == pytest.approx(mcnemar(default_only, specialized_only), abs=0.02)


def test_flipped_signs_beside_scipy() -> None:
    differences = np.random.default_rng(3).normal(-0.05, 0.2, size=60).clip(-1, 1)
    drawn = stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", alternative="less", n_resamples=20_000, rng=np.random.default_rng(0)
    )
    assert flips.lower(differences) == pytest.approx(drawn.pvalue, abs=0.01)


@given(DIFFERENCES)
@settings(max_examples=30, deadline=None)
def test_a_lower_arm_has_a_smaller_p(differences: np.ndarray) -> None:
    assert flips.lower(-np.abs(differences)) <= flips.lower(np.abs(differences))
    assert 0 < flips.lower(differences) <= 1


def test_a_p_is_never_zero() -> None:
    assert flips.lower(-np.ones(60)) == 1 / (flips.DRAWS + 1)
    assert flips.lower(np.ones(60)) == 1.0


@pytest.mark.parametrize("setting", SETTINGS[:3], ids=lambda setting: setting.name)
def test_flipped_signs_hold_their_rate(setting: Setting) -> None:
    draws, low = np.random.default_rng(1), 0
    for _ in range(300):
        default, specialized = scores(setting, 0.0, draws)
        low += flips.lower((specialized - default).mean(axis=1)) < 0.05
    assert low / 300 <= 0.05 + 2 * (0.05 * 0.95 / 300) ** 0.5


def most(setting: Setting, drop: float, draws: np.random.Generator) -> float:
    """The most evidence of any look, one after every repeat."""
    default, specialized = scores(setting, drop, draws)
    looks = range(1, setting.repeats + 1)
    return max(betting.evidence(default[:, :look], specialized[:, :look], setting.margin) for look in looks)


@pytest.mark.parametrize("setting", [SETTINGS[1], SETTINGS[3], SETTINGS[4]], ids=lambda setting: setting.name)
def test_looking_after_every_repeat_is_allowed_where_the_loss_is_the_margin(setting: Setting) -> None:
    draws = np.random.default_rng(0)
    assert np.mean([most(setting, setting.margin, draws) >= betting.STOP for _ in range(400)]) <= 0.05
    assert max(most(setting, 0.0, draws) for _ in range(100)) < betting.STOP


def test_a_loss_that_lies_in_few_items_is_bet_on_by_its_mean() -> None:
    """All of the margin's loss in three items: not every pair's loss is within it, but that of every whole repeat is."""
    draws, stopped = np.random.default_rng(0), 0
    margin = 3 * 0.95 / 30
    for _ in range(400):
        default, specialized = (draws.random((2, 30, 32)) < 0.95).astype(float)
        specialized[:3] = 0.0
        stopped += any(betting.evidence(default[:, :n], specialized[:, :n], margin) >= betting.STOP for n in range(1, 33))
    assert stopped / 400 <= 0.05


def test_a_greater_loss_is_found() -> None:
    draws = np.random.default_rng(0)
    assert np.mean([most(SETTINGS[1], 0.12, draws) >= betting.STOP for _ in range(50)]) > 0.9
    assert betting.evidence(np.ones((1000, 50)), np.zeros((1000, 50)), 0.01) > 1e300
    assert betting.evidence(np.ones((5, 0)), np.ones((5, 0)), 0.01) == pytest.approx(1.0)


def test_a_pair_without_a_score_bets_nothing() -> None:
    default, specialized = np.ones((10, 1)), np.zeros((10, 1))
    more = betting.evidence(np.append(default, [[np.nan]], axis=0), np.append(specialized, [[0.0]], axis=0), 0.02)
    assert more == pytest.approx(betting.evidence(default, specialized, 0.02))
