"""The part of a run that torchrun starts: the cases that all ranks run together, added to the record of the others."""

from collections.abc import Mapping, Sequence

from validate.errors import InputError
from validate.numerics import judge, runner, together
from validate.numerics.case import Case
from validate.numerics.plan import Plan, Task, tasks
from validate.numerics.session import INTERRUPTED, Session
from validate.paths.group import Group
from validate.paths.vllm import BY_TORCHRUN
from validate.processes import python
from validate.records import folder as records
from validate.records.model import Line

UNDER_WAY = "under-way"  # names the case that the ranks are at, for the processes that come after one has died


def wanted(session: Session, group: Group) -> list[Task]:
    """The tasks that run over the group; InputError if there are none.

    What is recorded of a case says whether it does. Otherwise its tensors' shapes do: equal ones are built once.
    """
    if session.manifest.arguments.mode != "numerics":
        raise InputError(f"{session.folder} records {session.manifest.arguments.mode}, which run in no group")
    every, known = tasks(session.cases), dict[str, bool]()
    cases = {case.id: case for case in session.cases}
    plan, found = session.plan(every), []
    recorded = {line.case for line in session.lines}
    waiting = f"{BY_TORCHRUN} {group.size} ranks"
    theirs = {line.case for line in session.lines if line.ranks == group.size or (line.missing or "").startswith(waiting)}
    for task in every:
        if task.case in recorded:
            found += [task] if task.case in theirs else []
            continue
        case = cases[task.case]
        if case.shapes not in known:
            known[case.shapes] = together.wanted(plan, task, judge.build(case), group.size)
        if known[case.shapes]:
            found.append(task)
    if not found:
        raise InputError(f"no case of {session.folder} runs over {group.size} ranks")
    return found


def judge_together(session: Session, group: Group, chosen: Sequence[Task]) -> int:
    """Judges the tasks over the ranks of the group, as its rank 0. Exit code 0: the verdict is of the whole record.

    InputError, with nothing recorded, where the ranks do not run the same code.
    """
    together.meet(session.plan(chosen), group)
    ids = {task.case for task in chosen}
    # What was recorded without the group gives way: it says that the case waits for one.
    session.lines = [line for line in session.lines if line.case not in ids or line.ranks == group.size]
    marker = session.folder / UNDER_WAY

    def lead(plan: Plan, cases: Mapping[str, Case], receive: runner.Receive) -> bool:
        def record(lines: list[Line]) -> None:
            receive([line.model_copy(update={"ranks": group.size}) for line in lines])

        left = list(plan.tasks)
        died = marker.read_text(encoding="utf-8") if group.restarted and marker.exists() else None
        for task in [task for task in left if task.case == died]:
            record(runner.lost(plan, task, cases[task.case], "a rank's process ended in this case: see what torchrun printed"))
            left.remove(task)
        plan = plan.model_copy(update={"tasks": tuple(left)})
        try:
            together.lead(plan, cases, group, record, lambda task: records.write(session.folder, UNDER_WAY, task.case))
        except KeyboardInterrupt:
            return False
        marker.unlink(missing_ok=True)
        return True

    if not session.run(chosen, lead):
        session.out.print(f"interrupted; what was measured is kept in {session.folder}", soft_wrap=True)
        session.out.print("resume: the same torchrun command", soft_wrap=True)
        return INTERRUPTED
    session.out.print(f"{len(chosen)} cases ran over {group.size} ranks; record: {session.folder}", soft_wrap=True)
    session.out.print(f"verdict: {python()} -m validate numerics --resume {session.folder}", soft_wrap=True)
    return 0
