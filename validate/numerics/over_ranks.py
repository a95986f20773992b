"""The part of a run that torchrun starts: the cases that all ranks run together, added to the record of the others."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from validate.errors import InputError
from validate.numerics import judge, runner, together
from validate.numerics.case import Case
from validate.numerics.plan import Plan, Task, tasks
from validate.numerics.session import Session
from validate.paths.group import Group
from validate.records import folder as records

UNDER_WAY = "under-way"  # names the case that the ranks are at, for the processes that come after one has died


def restarted() -> bool:
    """Whether torchrun has started these processes again, after one of them ended."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def wanted(session: Session, group: Group) -> list[Task]:
    """The tasks that run over the group; InputError if there are none.

    Who runs a case depends on its sizes: equal ones are built once.
    """
    every, known = tasks(session.cases), {}
    cases = {case.id: case for case in session.cases}
    plan, found = session.plan(every), []
    for task in every:
        case = cases[task.case]
        sizes = (case.stage, *case.sizes.items())
        if sizes not in known:
            known[sizes] = together.wanted(plan, task, judge.build(case), group.size)
        if known[sizes]:
            found.append(task)
    if not found:
        raise InputError(f"no case of {session.folder} runs over {group.size} ranks")
    return found


def judge_together(session: Session, group: Group, chosen: Sequence[Task]) -> int:
    """Judges the tasks over the ranks of the group, as its rank 0. Exit code 0: the verdict is of the whole record."""
    ids = {task.case for task in chosen}
    alone = {line.case for line in session.lines if line.case in ids and (line.missing or "").startswith(_by_torchrun())}
    session.lines = [line for line in session.lines if line.case not in alone]
    records.write_lines(session.folder, session.lines)
    marker = session.folder / UNDER_WAY

    def lead(plan: Plan, cases: Mapping[str, Case], receive: runner.Receive) -> bool:
        left = list(plan.tasks)
        died = marker.read_text(encoding="utf-8") if restarted() and marker.exists() else None
        for task in [task for task in left if task.case == died]:
            receive(runner.lost(plan, task, cases[task.case], "a rank's process ended in this case: see what torchrun printed"))
            left.remove(task)
        plan = plan.model_copy(update={"tasks": tuple(left)})
        together.lead(plan, cases, group, receive, lambda task: _mark(marker, task))
        marker.unlink(missing_ok=True)
        return True

    session.run(chosen, lead)
    session.out.print(f"{len(chosen)} cases ran over {group.size} ranks; record: {session.folder}", soft_wrap=True)
    session.out.print(f"verdict: python -m validate numerics --resume {session.folder}", soft_wrap=True)
    return 0


def _mark(marker: Path, task: Task) -> None:
    marker.write_text(task.case, encoding="utf-8")


def _by_torchrun() -> str:
    from validate.paths.vllm import BY_TORCHRUN  # imports vLLM's adapters

    return BY_TORCHRUN
