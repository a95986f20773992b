"""What stands beside a task's verdict: the loss that would be found, the interval by drawing items."""

import numpy as np
import pytest

from evals.comparing import scores
from tests.evals.comparing.arms import Task
from tests.evals.comparing.test_lengths import arm
from tests.stats.simulation import SETTINGS, Setting, rates
from tests.stats.simulation import scores as drawn


def judged(setting: Setting) -> scores.Task:
    arms = [arm(np.zeros((setting.items, setting.repeats))) for _ in range(2)]
    for one, made in zip(arms, drawn(setting, 0.0, np.random.default_rng(0)), strict=True):
        one.scores[:] = made
    found = scores.judge(Task("some", arms[0].scores, setting.margin).plan(), *arms, None, 0.0)
    assert found is not None
    return found


@pytest.mark.parametrize("setting", SETTINGS[2:], ids=lambda setting: setting.name)
def test_the_loss_that_is_said_to_be_found_fails_four_runs_of_five(setting: Setting) -> None:
    """Without what the loss itself adds to the spread, of 1,319 pairs two of three runs would fail."""
    assert rates(setting, judged(setting).found, 300)["FAIL"] == pytest.approx(0.8, abs=0.1)


def test_the_interval_by_drawing_items_is_as_wide_as_the_bounds() -> None:
    found = judged(SETTINGS[3])
    assert found.bootstrap == pytest.approx((found.low, found.high), abs=0.1 * (found.high - found.low))
