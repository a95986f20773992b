"""A case in a process of its own: the same lines, and an end by the deadline."""

from pathlib import Path

import pytest

from validate.numerics import child, judge, plan
from validate.numerics.case import Case
from validate.numerics.plan import Plan, Task
from validate.numerics.test_stages import line_of
from validate.profiles import load

CASE = Case("final_norm", {"batch": 1}, "trained", 0)


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    tasks = (Task(case=CASE.id),)
    path.write_text(Plan(profile=load("cpu"), planted=None, vllm_src=None, tasks=tasks).model_dump_json())
    return path


def test_the_lines_are_those_of_this_process(plan_file: Path, tmp_path: Path) -> None:
    planned = plan.read(plan_file)
    here = [line_of(CASE, judgement) for judgement in judge.judge(CASE, planned.subjects(planned.tasks[0]))]
    there = child.judged(plan_file, CASE.id, tmp_path)
    assert [line.model_copy(update={"seconds": 0.0}) for line in there] == [
        line.model_copy(update={"seconds": 0.0}) for line in here
    ]


def test_a_child_is_killed_at_its_deadline(plan_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "DEADLINE", 0.2)
    with pytest.raises(RuntimeError, match="killed after"):
        child.judged(plan_file, CASE.id, tmp_path)


def test_a_child_that_dies_says_why(plan_file: Path, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"gave no result: .*StopIteration"):
        child.judged(plan_file, "final_norm/batch1/nothing/s0", tmp_path)
