"""The specialized arm is asked no further where it has failed already, and the comparison says so."""

import dataclasses
from pathlib import Path

import pytest

pytest.importorskip("lm_eval")

from evals.comparing.comparison import compare
from evals.records import folder as records
from evals.running import arm
from evals.running.asking import Question, Reply
from evals.running.planning import planned
from tests.evals.running.doubles import Double
from tests.evals.running.test_recording import asked, record
from validate.report.console import console
from validate.verdict import Verdict

pytestmark = pytest.mark.filterwarnings("ignore")  # of lm-eval and what it imports
TASKS = ("practice_integers items=30", "practice_stories items=10")


class Right:
    """Answers as the tasks want it, but for a share of the items: 1 in ``wrong``."""

    def __init__(self, of: arm.Asked, wrong: int = 0) -> None:
        tasks = planned(of.suite, None, None)
        self._gold = {(one.plan.name, row["item"]): row["gold"] for one in tasks for row in one.task.dataset["test"]}
        self._wrong = wrong

    def __call__(self, question: Question) -> Reply:
        gold = self._gold[question.task, question.item]
        if self._wrong and int(question.item.split("/")[-1]) % self._wrong == 0:
            gold = "99999"
        return Reply(content=f"\\boxed{{{gold}}}\n#### {gold}", finish="stop", tokens=7, prompt_tokens=9)


def specialized(there: Path, default: arm.Asked, wrong: int) -> tuple[arm.Asked, Double]:
    of = dataclasses.replace(asked(there, *TASKS, name="specialized", repeats=4), file=default.file, default=default.there)
    return of, record(of, Double(path="specialized", reply=Right(default, wrong)))


def test_an_arm_that_has_failed_is_not_asked_further(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    default = asked(tmp_path, *TASKS, repeats=4)
    record(default, Double(reply=Right(default)))
    of, double = specialized(tmp_path, default, wrong=1)
    assert len(double.asked) == 30  # the first repeat of the first task, of 160
    assert "specialized has failed and is not asked further: e-value" in " ".join(capsys.readouterr().out.split())
    assert arm.ended(of.there)
    assert records.steps(of.there) is not None
    found = compare(default.there, None, of.there)
    assert found.verdict is Verdict.FAIL
    assert {one.name: one.verdict for one in found.checks}["attestation"] is Verdict.PASS
    assert [one.name for one in found.checks if one.name.startswith("score")] == ["score of practice_integers"]


def test_an_arm_that_loses_little_or_nothing_is_asked_all(tmp_path: Path) -> None:
    default = asked(tmp_path, *TASKS, repeats=4)
    record(default, Double(reply=Right(default)))
    of, double = specialized(tmp_path, default, wrong=29)
    assert len(double.asked) == 160
    assert compare(default.there, None, of.there).verdict is not Verdict.FAIL


def test_a_look_is_taken_where_a_resumed_repeat_is_whole(tmp_path: Path) -> None:
    default = asked(tmp_path, *TASKS, repeats=4)
    record(default, Double(reply=Right(default)))
    of = dataclasses.replace(asked(tmp_path, *TASKS, name="specialized", repeats=4), file=default.file, default=default.there)
    with pytest.raises(Exception, match="the engine died"):
        arm.record(of, console(), Double(path="specialized", reply=Right(default, 1), dies_after=20))
    double = record(of, Double(path="specialized", reply=Right(default, 1)))
    assert len(double.asked) == 10
