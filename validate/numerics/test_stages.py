"""Every planned case, judged. Run by ``python -m validate numerics``, which writes the plan and collects the lines."""

import json
from pathlib import Path

import pytest

from validate.numerics import child, judge, plan
from validate.numerics.case import Case
from validate.numerics.plugin import LINES, PLAN
from validate.paths import Subject
from validate.paths.emulated import Emulated
from validate.records.model import Line, Measured


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test a task, named by its case."""
    planned = plan.read(metafunc.config.getoption(PLAN))
    cases = {case.id: case for case in judge.cases(planned.profile)}
    parameters = [pytest.param(planned, task, cases[task.case], id=task.case) for task in planned.tasks]
    metafunc.parametrize(("planned", "task", "case"), parameters)


def test_stage(planned: plan.Plan, task: plan.Task, case: Case, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Runs the task's subjects on its case, hands over what was measured, and fails if a check did."""
    if planned.profile.runs_on == "emulated":
        lines = [line_of(case, judgement) for judgement in judge.judge(case, planned.subjects(task))]
    else:
        lines = _in_child(case, request.config.getoption(PLAN), tmp_path)
    dumped = json.dumps([line.model_dump_json() for line in lines])
    request.node.user_properties.append((LINES, dumped))
    failed = [f"{line.subject} {m.tensor} {m.check}" for line in lines for m in line.failures]
    if failed:
        pytest.fail("; ".join(failed), pytrace=False)


_child: child.Child | None = None  # this process's: a kernel may never end, so this one uses no GPU


def _in_child(case: Case, plan_file: Path, scratch: Path) -> list[Line]:
    global _child
    _child = _child or child.Child(plan_file)
    return _child.judged(case.id, scratch)


def beside_kernels(case: Case, subjects: list[Subject]) -> list[Line]:
    """Judges a case on a GPU. Emulated subjects stand beside kernels: a case that no kernel runs is not judged."""
    call = judge.build(case)
    kernels = [subject for subject in subjects if not isinstance(subject, Emulated)]
    reasons = {subject.name: subject.missing(call) for subject in kernels}
    if kernels and None not in reasons.values():
        reasons = {subject.name: reasons.get(subject.name, "no kernel of vLLM runs this case") for subject in subjects}
        return [line_of(case, judge.Judgement(name, (), 0.0, reason)) for name, reason in reasons.items()]
    return [line_of(case, judgement) for judgement in judge.judge_call(call, subjects)]


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
