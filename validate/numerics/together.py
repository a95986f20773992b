"""Cases that all ranks of a group run together, one process a GPU, as torchrun starts them.

Rank 0 leads: it says which case is next, judges and records. All ranks run the subjects that run over ranks, in the same
order; nothing else of a case is any rank's but the leader's.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NoReturn

from torch import Tensor

from validate.errors import InputError
from validate.model.call import Call
from validate.numerics import judge, runner, subjects
from validate.numerics.case import Case
from validate.numerics.plan import Plan, Task
from validate.numerics.runner import Receive
from validate.numerics.test_stages import line_of
from validate.paths import Broken, Lost, Subject
from validate.paths.group import Group, Parted
from validate.records import provenance
from validate.records.model import Line
from validate.verdict import Verdict

LOST = 75  # the exit code of ranks that have lost their GPU, or each other: torchrun starts all again


class Over:
    """A subject that runs over ranks on one case: what it gave, for the judge. Made on all ranks at the same time."""

    def __init__(self, subject: Subject, call: Call, group: Group) -> None:
        self.name, self.path = subject.name, subject.path
        self.missing, self.note, self.ranks = subject.missing, subject.note, subject.ranks
        self.broken: Broken | None = None
        self._results: list[Call] = []
        versions = {name: value._version for name, value in call.inputs.items() if isinstance(value, Tensor)}
        first, second = group.together(lambda: (call.fresh(), call.fresh()))
        start = time.perf_counter()
        try:
            group.together(lambda: subject.run(first))
            self._results.append(first)
            self.seconds = time.perf_counter() - start
            group.together(lambda: subject.again(second))
            self._results.append(second)
        except Broken as broken:
            self.broken = broken
            self.seconds = time.perf_counter() - start
        written = [name for name, version in versions.items() if call.inputs[name]._version != version]
        self._written = sorted({name for names in group.gather(written) for name in names})

    def run(self, call: Call) -> None:
        """The first result; inputs that a rank has written are written again, where the judge notices."""
        for name in self._written:
            call.inputs[name].copy_(call.inputs[name].clone())
        self._give(0, call)

    def again(self, call: Call) -> None:
        """The second."""
        self._give(1, call)

    def _give(self, number: int, call: Call) -> None:
        if number == len(self._results):
            assert self.broken is not None
            raise self.broken
        for name in (*call.outputs, *call.buffers):
            call.written(name).copy_(self._results[number].written(name))


def lead(plan: Plan, cases: Mapping[str, Case], group: Group, receive: Receive, begin: Callable[[Task], None]) -> None:
    """Judges the plan's tasks with all ranks, and tells them when there are no more. ``begin`` is told of each beforehand.

    All have met before. A case that raises yields lines with ``error``. Where a GPU is lost, every process ends, once the case
    is recorded. InputError where ``receive`` or ``begin`` raise it.
    """
    for task in plan.tasks:
        begin(task)
        group.tell(task)
        case, ran = cases[task.case], dict[str, Over]()
        try:
            call, ran = _over_ranks(plan, task, case, group)
            lines = _judged(plan, task, case, call, ran)
        except Parted:
            raise
        except Exception as error:
            lines = runner.lost(plan, task, case, f"{type(error).__name__}: {error}")
        receive(lines)
        _leave_if_lost(group, ran)
    group.tell(None)


def meet(plan: Plan, group: Group) -> None:
    """Hands the plan to all ranks, before any case begins. InputError where one cannot take it: without vLLM, say."""
    group.tell(plan)
    _agree(plan, group)


def refuse(group: Group, why: str) -> None:
    """In the place of ``meet``, where there is nothing to judge."""
    group.refuse(why)
    group.tell(None)


def leave() -> NoReturn:
    """Ends this process, and torchrun all others. An ordinary exit would wait for a kernel, or for another rank."""
    end(LOST)


def end(code: int) -> NoReturn:
    """Ends this process. An ordinary exit takes the process group's threads down in an order in which one may abort."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def follow(group: Group) -> int:
    """What every rank but the first does: what it is told, until there is nothing more. Returns the exit code."""
    plan: Plan | None = group.tell()
    if plan is None:
        return Verdict.INVALID.exit_code
    try:
        _agree(plan, group)
    except InputError:  # the leader says so
        return Verdict.INVALID.exit_code
    by_id = {case.id: case for case in judge.cases(plan.profile, {task.case.split("/")[0] for task in plan.tasks})}
    while (task := group.tell()) is not None:
        with contextlib.suppress(RuntimeError, InputError):  # went wrong on all ranks: the leader says so
            _leave_if_lost(group, _over_ranks(plan, task, by_id[task.case], group)[1])
    return 0


def wanted(plan: Plan, task: Task, call: Call, ranks: int) -> bool:
    """Whether a subject runs this case over so many ranks."""
    return any(subject.missing(call) is None and subject.ranks(call) == ranks for subject in plan.subjects(task))


def _judged(plan: Plan, task: Task, case: Case, call: Call, ran: Mapping[str, Over]) -> list[Line]:
    lines = []
    for judgement in judge.judge_call(call, [ran.get(subject.name, subject) for subject in plan.subjects(task)]):
        own = ran.get(judgement.subject)
        lines.append(line_of(case, replace(judgement, seconds=own.seconds) if own else judgement))
    return lines


def _agree(plan: Plan, group: Group) -> None:
    """Makes the subjects on every rank, before any case begins. InputError if they are not everywhere the same code."""

    def code() -> dict[str, object]:
        made = [subject for task in plan.tasks[:1] for subject in plan.subjects(task)]
        return {
            "source": provenance.source(),
            "versions": provenance.versions(),
            "files of vLLM": subjects.vllm_files(made),
        }

    try:
        every = group.gather(group.together(code))
        for rank, there in enumerate(every):
            for what, value in there.items():
                if value != every[0][what]:
                    raise InputError(f"the {what} on rank {rank} are not those on rank 0: {value}, not {every[0][what]}")
    except InputError as error:
        group.refuse(str(error))  # on every rank: with the first one that ends, torchrun ends the others
        raise


def _over_ranks(plan: Plan, task: Task, case: Case, group: Group) -> tuple[Call, dict[str, Over]]:
    def built() -> tuple[Call, list[Subject]]:
        call = judge.build(case)
        return call, [one for one in plan.subjects(task) if one.missing(call) is None and one.ranks(call) > 1]

    call, chosen = group.together(built)
    return call, {subject.name: Over(subject, call, group) for subject in chosen}


def _leave_if_lost(group: Group, ran: Mapping[str, Over]) -> None:
    if any(isinstance(one.broken, Lost) for one in ran.values()):
        group.tell()  # the leader has recorded it
        leave()
