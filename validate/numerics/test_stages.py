"""Every planned case, judged. Run by ``python -m validate numerics``, which writes the plan and collects the lines."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from validate.numerics import child, judge, plan
from validate.numerics.case import Case
from validate.numerics.plugin import LINES, PLAN
from validate.paths import Subject
from validate.records.model import Line, Measured


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test a task, named by its case."""
    planned = plan.read(metafunc.config.getoption(PLAN))
    cases = {case.id: case for case in judge.cases(planned.profile)}
    parameters = [pytest.param(planned, task, cases[task.case], id=task.case) for task in planned.tasks]
    metafunc.parametrize(("planned", "task", "case"), parameters)


def test_stage(planned: plan.Plan, task: plan.Task, case: Case, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Runs the task's subjects on its case, hands over what was measured, and fails if a check did."""
    subjects = planned.subjects(task)
    if planned.profile.runs_on != "emulated" and _polled(case, subjects):
        lines = child.judged(request.config.getoption(PLAN), case.id, tmp_path)
    else:
        lines = [line_of(case, judgement) for judgement in judge.judge(case, subjects)]
    dumped = json.dumps([line.model_dump_json() for line in lines])
    request.node.user_properties.append((LINES, dumped))
    failed = [f"{line.subject} {m.tensor} {m.check}" for line in lines for m in line.failures]
    if failed:
        pytest.fail("; ".join(failed), pytrace=False)


def _polled(case: Case, subjects: Iterable[Subject]) -> bool:
    call = judge.build(case)
    return any(subject.missing(call) is None and subject.polls(call) for subject in subjects)


def line_of(case: Case, judgement: judge.Judgement) -> Line:
    """A judgement as the record keeps it."""
    return Line(
        case=case.id,
        stage=case.stage,
        sizes=dict(case.sizes),
        inputs=case.inputs,
        seed=case.seed,
        subject=judgement.subject,
        seconds=round(judgement.seconds, 6),
        missing=judgement.missing,
        note=judgement.note,
        measurements=tuple(Measured(**vars(m)) for m in judgement.measurements),
    )
