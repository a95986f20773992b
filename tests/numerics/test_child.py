"""A case in a process of its own: the same lines, and an end by the deadline."""

from collections.abc import Iterator
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


@pytest.fixture
def one(plan_file: Path) -> Iterator[child.Child]:
    made = child.Child(plan_file)
    yield made
    made.close()


def test_the_lines_are_those_of_this_process(plan_file: Path, one: child.Child, tmp_path: Path) -> None:
    planned = plan.read(plan_file)
    here = [line_of(CASE, judgement) for judgement in judge.judge(CASE, planned.subjects(planned.tasks[0]))]
    there = one.judged(CASE.id, tmp_path)
    assert [line.model_copy(update={"seconds": 0.0}) for line in there] == [
        line.model_copy(update={"seconds": 0.0}) for line in here
    ]


def test_a_child_is_killed_at_its_deadline(one: child.Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "DEADLINE", 0.2)
    with pytest.raises(RuntimeError, match="killed after"):
        one.judged(CASE.id, tmp_path)


def test_a_child_that_dies_says_why(one: child.Child, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"gave no result: .*KeyError"):
        one.judged("final_norm/batch1/nothing/s0", tmp_path)


def test_a_child_goes_on_and_another_takes_a_dead_ones_place(one: child.Child, tmp_path: Path) -> None:
    for n in range(2):
        (tmp_path / str(n)).mkdir()
        assert one.judged(CASE.id, tmp_path / str(n))
    first = one._process
    with pytest.raises(RuntimeError, match="gave no result"):
        one.judged("final_norm/batch1/nothing/s0", tmp_path)
    assert one.judged(CASE.id, tmp_path)
    assert first is not one._process


def test_a_child_that_is_killed_says_where_it_was(one: child.Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped while it waits for a case that never comes: the deadline is the parent's, and its own is told by the first line."""
    waits = "import faulthandler, time; faulthandler.dump_traceback_later(0.5); time.sleep(60)"
    one._command = [child.sys.executable, "-c", waits]
    monkeypatch.setattr(child, "DEADLINE", 3.0)
    with pytest.raises(RuntimeError, match=r'killed after 3 s in File "<string>", line 1'):
        one.judged(CASE.id, tmp_path)


def test_a_child_that_dies_as_it_is_asked_is_that_cases_error_only(
    one: child.Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, one._command = one._command, [child.sys.executable, "-c", "raise SystemExit(7)"]
    dead = one._started()
    dead.wait()
    with monkeypatch.context() as between:
        between.setattr(one, "_started", lambda: dead)  # it was alive a moment ago
        with pytest.raises(RuntimeError, match="gave no result: exit code 7"):
            one.judged(CASE.id, tmp_path)
    one._command = command
    assert one.judged(CASE.id, tmp_path)


def test_a_compilers_last_words_are_its_error(one: child.Child, tmp_path: Path) -> None:
    """In colours, with advice and an empty line behind it."""
    said = "\\x1b[91merror[MISSING]: no FFI\\x1b[0m\\n--> file.py:46\\nsuggestion: install it\\n\\n"
    one._command = [child.sys.executable, "-c", f"import sys; sys.stderr.write('{said}'); sys.exit(1)"]
    with pytest.raises(RuntimeError, match=r"gave no result: error\[MISSING\]: no FFI$"):
        one.judged(CASE.id, tmp_path)
