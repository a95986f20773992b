"""What the worker processes are to do: handed to them as a file, so that they and the controller cannot disagree."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from validate.numerics import subjects
from validate.numerics.case import Case
from validate.paths import Subject
from validate.profiles import Profile


class Task(BaseModel):
    """One case, and who is judged on it: the profile's subjects, or the sound default path and these ``faults``."""

    model_config = ConfigDict(frozen=True)

    case: str
    faults: tuple[str, ...] = ()


class Plan(BaseModel):
    """Everything that a worker needs to know."""

    model_config = ConfigDict(frozen=True)

    profile: Profile
    planted: str | None
    vllm_src: str | None
    tasks: tuple[Task, ...]

    def subjects(self, task: Task) -> list[Subject]:
        """Who is judged on a task's case."""
        if task.faults:
            return subjects.sound_and_faulty(task.faults)
        return subjects.make(self.profile, self.planted, self.vllm_src)


def tasks(cases: Iterable[Case], faults: Sequence[str] = ()) -> list[Task]:
    """One task a case. With ``faults`` (names), each case gets its stage's; cases without any are left out.

    Cases of one stage and TP size stand together: they share cached weights, and workers take neighbours.
    """
    found: dict[tuple[str, int], list[Task]] = {}
    for case in cases:
        own = tuple(name for name in faults if name.split(".")[0] == case.stage)
        if own or not faults:
            found.setdefault((case.stage, case.sizes.get("tp", 0)), []).append(Task(case=case.id, faults=own))
    return [task for together in found.values() for task in together]


def read(path: Path) -> Plan:
    """A plan that ``Plan.model_dump_json`` wrote."""
    return Plan.model_validate_json(path.read_text(encoding="utf-8"))
