"""What is said before a run against what then happens, of arms whose items' rates are known."""

from pathlib import Path

import numpy as np
import pytest

from evals.comparing.power import Planned, correlation, plan, simulate, urn
from tests.evals.comparing.arms import Task, write
from tests.stats.simulation import SETTINGS, Setting, rates, scores
from tests.support import Tool
from validate.errors import InputError
from validate.stats.noninferiority import difference
from validate.verdict import Verdict

# Of the verdict that is simulated from the true rates, in tests/stats/simulation.py: what two arms of these sizes can say.
NEAR = 0.12


def planned(setting: Setting, seed: int) -> Planned:
    default, again = scores(setting, 0.0, np.random.default_rng(seed))
    return simulate(Task("", default, setting.margin).plan(), default, again, trials=150)


@pytest.mark.parametrize("place", [2, 3, 4])
def test_a_power_that_is_said_is_found(place: int) -> None:
    setting = SETTINGS[place]
    said = [planned(setting, seed) for seed in range(3)]
    assert np.mean([one.passes for one in said]) == pytest.approx(rates(setting, 0.0, 400)["PASS"], abs=NEAR)
    losses = [one.failed for one in said if one.failed is not None]
    assert len(losses) == 3
    assert rates(setting, float(np.mean(losses)), 300)["FAIL"] == pytest.approx(0.8, abs=NEAR)
    unpassed = [one.unpassed for one in said if one.unpassed is not None]
    assert rates(setting, float(np.mean(unpassed)), 300)["PASS"] == pytest.approx(0.2, abs=NEAR)


@pytest.mark.parametrize("place", range(1, 5))
def test_the_correlation_of_two_answers(place: int) -> None:
    found = [correlation(np.concatenate(scores(SETTINGS[place], 0.0, np.random.default_rng(s)), axis=1)) for s in range(20)]
    assert np.mean(found) == pytest.approx(SETTINGS[place].rho, abs=0.08)
    assert correlation(np.ones((5, 4))) == correlation(np.array([[1.0] * 4, [0.0] * 4])) == 0.999


def test_the_power_of_few_items_is_that_of_these_items() -> None:
    """30 of which 26 are always right: other items that are as often right on average would say something else."""
    rates_of = np.array([1.0] * 26 + [0.97, 0.9, 0.8, 0.7])[:, None]

    def judged(draws: np.random.Generator, loss: float) -> Verdict:
        default = (draws.random((30, 32)) < rates_of).astype(float)
        specialized = draws.random((30, 32)) < rates_of * (1 - loss / rates_of.mean())
        return difference(default, specialized.astype(float)).verdict(0.02)

    draws = np.random.default_rng(0)
    arms = [(draws.random((30, 32)) < rates_of).astype(float) for _ in range(2)]
    said = simulate(Task("", arms[0], 0.02).plan(), *arms, trials=200)
    assert said.failed is not None
    assert np.mean([judged(draws, 0.0) is Verdict.PASS for _ in range(300)]) == pytest.approx(said.passes, abs=NEAR)
    assert np.mean([judged(draws, said.failed) is Verdict.FAIL for _ in range(300)]) == pytest.approx(0.8, abs=NEAR)


def test_an_urn_keeps_mean_and_correlation() -> None:
    """Answers that were known are not drawn again but for their weight: two of them do not make an item certain."""
    known = scores(SETTINGS[3], 0.0, np.random.default_rng(0))
    both = np.concatenate(known, axis=1)
    rho = correlation(both)
    drawn = [urn(both, 1 / rho - 1, 4, np.random.default_rng(seed)) for seed in range(60)]
    assert np.mean(drawn) == pytest.approx(both.mean(), abs=0.002)
    assert np.mean([correlation(one) for one in drawn]) == pytest.approx(rho, abs=0.02)
    holes = np.array([[np.nan, 1.0, np.nan, 1.0], [0.0, np.nan, 0.0, np.nan]])
    assert urn(holes, 1e-9, 3, np.random.default_rng(0)).tolist() == [[1.0] * 3, [0.0] * 3]


def test_the_command(tmp_path: Path, tool: Tool) -> None:
    default, again = scores(SETTINGS[0], 0.0, np.random.default_rng(0))
    arms = [
        write(tmp_path / name, name, Task("aime25", made, 0.02))
        for name, made in (("default", default), ("default-again", again), ("specialized", again))
    ]
    done = tool("power", str(arms[0]), str(arms[1]))
    assert done.returncode == 0, done
    assert "aime25" in done.stdout
    assert "All 1 tasks pass with probability" in done.stdout
    assert "are no two arms of the default path: decode_backend" in tool.refused("power", str(arms[0]), str(arms[2]))
    few = np.full((3, 1), np.nan)
    with pytest.raises(InputError, match="fewer than two items have two scores"):
        simulate(Task("few", few, 0.1).plan(), few, few)


def test_arms_with_wrong_responses_are_refused(tmp_path: Path) -> None:
    made = np.ones((4, 2))
    write(tmp_path / "default", "default", Task("aime25", made))
    write(tmp_path / "again", "default-again", Task("aime25", made, changed={(0, 0): {"scores": {}}}))
    with pytest.raises(InputError, match="no score named exact"):
        plan(tmp_path / "default", tmp_path / "again")
