"""Every planned case, judged. Run by ``python -m validate numerics``, which writes the plan and collects the lines."""

import json

import pytest

from validate.numerics import judge, plan
from validate.numerics.case import Case
from validate.numerics.plugin import LINES, PLAN
from validate.records.model import Line, Measured


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test a task, named by its case."""
    planned = plan.read(metafunc.config.getoption(PLAN))
    cases = {case.id: case for case in judge.cases(planned.profile)}
    parameters = [pytest.param(planned, task, cases[task.case], id=task.case) for task in planned.tasks]
    metafunc.parametrize(("planned", "task", "case"), parameters)


def test_stage(planned: plan.Plan, task: plan.Task, case: Case, request: pytest.FixtureRequest) -> None:
    """Runs the task's subjects on its case, hands over what was measured, and fails if a check did."""
    lines = [line_of(case, judgement) for judgement in judge.judge(case, planned.subjects(task))]
    dumped = json.dumps([line.model_dump_json() for line in lines])
    request.node.user_properties.append((LINES, dumped))
    failed = [f"{line.subject} {m.tensor} {m.check}" for line in lines for m in line.failures]
    if failed:
        pytest.fail("; ".join(failed), pytrace=False)


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
        measurements=tuple(Measured(**vars(m)) for m in judgement.measurements),
    )
