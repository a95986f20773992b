"""Evidence from two folders, one of them half recorded; and how often whole runs stop, pass and fail (more: simulation.py)."""

from pathlib import Path

import numpy as np
import pytest

from evals.comparing import stopping
from evals.comparing.reading import Items, read
from evals.comparing.stopping import Evidence, evidence, stops, together
from evals.grading.response import Outcome
from evals.records import folder
from tests.evals.comparing.arms import Task, ended, manifest, write
from tests.evals.comparing.simulation import AIME, COVERED, coverage, rates
from tests.stats.simulation import Setting
from validate.stats import betting

TRIALS = 40


def looked(default: Path, specialized: Path) -> list[Evidence]:
    items: dict[str, Items] = {}
    return evidence(*(read(path, folder.manifest(default), items) for path in (default, specialized)))


def test_whole_repeats_alone_are_looked_at(tmp_path: Path) -> None:
    tasks = Task("aime25", np.ones((30, 8))), Task("gsm8k", np.ones((40, 1)))
    default = write(tmp_path / "default", "default", *tasks)
    partial = tmp_path / "specialized"
    partial.mkdir()
    folder.write_manifest(partial, manifest("specialized", *tasks, end=None))
    wrong = Task("aime25", np.zeros((30, 8)), changed={(0, 0): ended(Outcome.ERROR)}).answers()
    folder.append(partial, wrong[: 30 * 2 + 29])
    found = looked(default, partial)
    assert [(one.task, one.repeats, one.planned) for one in found] == [("aime25", 2, 8), ("gsm8k", 0, 1)]
    zeros = np.zeros((30, 2))
    zeros[0, 0] = np.nan  # an error bets nothing
    assert found[0].value == pytest.approx(betting.evidence(np.ones((30, 2)), zeros, 0.02))
    assert found[1].value == pytest.approx(1.0)
    assert stops(found)
    folder.append(partial, wrong[30 * 2 + 29 : 30 * 3])
    assert looked(default, partial)[0].repeats == 3
    assert "of 20 to stop for failure: aime25" in stopping.says(found)


def test_the_mean_of_tasks_is_never_later_than_bonferroni() -> None:
    found = [Evidence(task=f"{n}", repeats=1, planned=1, value=value) for n, value in enumerate((80.0, 0.0, 0.0, 0.0))]
    assert together(found) == 20.0
    assert stops(found)
    assert not stops(found[1:])
    assert not stops([])


def test_runs_without_a_loss_neither_fail_nor_stop() -> None:
    found = rates((0.0,) * 4, TRIALS)
    assert (found["FAIL"], found["stopped"], found["elsewhere"]) == (0.0, 0.0, 0.0)
    assert found["PASS"] > 0.5
    assert found["alarm"] <= 0.05 + 2 * (0.05 * 0.95 / TRIALS) ** 0.5


def test_runs_with_a_loss_fail_and_stop() -> None:
    """GSM8K alone loses four times its margin."""
    found = rates((4.0, 0.0, 0.0, 0.0), TRIALS)
    assert found["FAIL"] > 0.95
    assert found["PASS"] == 0.0
    assert found["stopped"] > 0.8
    assert found["asked"] < 0.6


@pytest.mark.parametrize("setting", COVERED, ids=lambda setting: setting.name)
def test_the_bounds_cover(setting: Setting) -> None:
    """Of 30 items nearly always right, drawing items covers less than it says; the verdict's bounds do not."""
    found = coverage(setting, setting.margin, 400)
    least = 0.95 - 2 * (0.05 * 0.95 / 400) ** 0.5
    assert found["above low"] >= least
    assert found["below high"] >= least - 0.01
    if setting is not AIME:
        assert found["above low, drawn"] >= least - 0.02
