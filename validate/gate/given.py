"""What a call of the gate was given of what steps need, and the commands that follow."""

import shlex
import signal
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from validate.errors import InputError
from validate.gate import findings
from validate.gate.profile import Need, Profile, Step
from validate.processes import python

UNKNOWN: dict[Need, str] = {"default-url": "URL", "specialized-url": "URL", "over-ranks": "'srun … torchrun …'"}


@dataclass(frozen=True)
class Given:
    """Servers of both paths, and the words of the command that starts Python on every rank."""

    default_url: tuple[str, ...] = ()
    specialized_url: tuple[str, ...] = ()
    over_ranks: tuple[str, ...] = ()

    def of(self, need: Need) -> tuple[str, ...]:
        """What was given of it."""
        found: tuple[str, ...] = getattr(self, need.replace("-", "_"))
        return found

    def needed_by(self, profile: Profile) -> None:
        """InputError for what no step of the profile needs: it would be taken for tried."""
        for need in get_args(Need):
            if self.of(need) and not any(need in step.needs for step in profile.steps):
                raise InputError(f"--{need}: no step of the gate profile {profile.name} needs it")

    def due(self, step: Step) -> bool:
        """Whether the step can be begun, or go on: it needs nothing, or something of what it needs is given."""
        return not step.needs or any(self.of(need) for need in step.needs)

    def first(self, step: Step, into: Path, record: Path | None) -> list[str]:
        """The step's command, for a new record in the folder ``into`` or to go on with one."""
        where = ["--resume", str(record)] if findings.continued(record) else ["--output", str(into)]
        urls = [word for need in step.needs if need != "over-ranks" for url in self.of(need) for word in (f"--{need}", url)]
        return [sys.executable, *step.program, *step.command, *where, *urls]

    def over(self, step: Step, record: Path) -> list[tuple[list[str], signal.Signals]]:
        """What follows it where its cases are of several ranks. srun hands SIGTERM on to its tasks, and keeps SIGINT."""
        if not self.over_ranks or "over-ranks" not in step.needs:
            return []
        rest = [*step.program, step.command[0], "--resume", str(record)]
        return [([*self.over_ranks, *rest], signal.SIGTERM), ([sys.executable, *rest], signal.SIGINT)]

    def go_on(self, there: Path, left: Iterable[Step]) -> str:
        """The command that continues a run, with what the steps that are left need."""
        words = [f"{shlex.quote(python())} -m validate gate --resume", shlex.quote(str(there))]
        for need in dict.fromkeys(need for step in left for need in step.needs):
            given = self.of(need)
            values = [shlex.quote(shlex.join(given))] if given and need == "over-ranks" else [shlex.quote(url) for url in given]
            words += [f"--{need} {value}" for value in values or [UNKNOWN[need]]]
        return " ".join(words)
