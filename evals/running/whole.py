"""The arms of a suite, recorded one after the other or side by side, and compared: what ``nox -s evals`` does.

A run's folder holds ``begun.json``, a folder for each arm by its name, what engines say on standard error (``<arm>.log``), and
the comparison. A run that is interrupted, or whose servers are not up at once, is resumed from that folder.
"""

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from evals.comparing import power, session
from evals.running import arm
from evals.running.planning import planned
from evals.running.suite import Suite, load
from validate.equivalence import side_by_side
from validate.equivalence.arm import Name
from validate.equivalence.record import plantable
from validate.errors import InputError
from validate.processes import python
from validate.records import folder, writer
from validate.records.model import Record
from validate.verdict import Verdict

BEGUN = "begun.json"
COMMAND = (sys.executable, "-m", "validate", "evals")
ARMS: tuple[Name, ...] = ("default", "default-again", "specialized")
Urls = Mapping[Name, tuple[str, ...]]


class Begun(Record):
    """``begun.json``: what a run was begun with, and is resumed with. ``suite`` is as it was named, ``keyword`` of tasks."""

    suite: str
    keyword: str | None = None
    data: str | None = None
    plant: str | None = None


@dataclass(frozen=True)
class Run:
    """One run. ``urls``: the servers of each arm, where it has any."""

    begun: Begun
    suite: Suite
    there: Path
    urls: Urls
    out: Console

    def record(self, name: Name) -> int:
        """One arm in this process. Exit code 3 if its record proves nothing."""
        return arm.record(self._asked(name), self.out)

    def all(self) -> int:
        """Records what is not recorded yet, then compares, while no other process writes to the run's folder."""
        with writer.alone(self.there):
            return self._all()

    def _all(self) -> int:
        """Records what is not recorded yet, each arm in a process of its own, then compares. Exit code as of the verdict.

        Where there are servers, of the arms that have some: the others are left to another call.
        """
        served = [name for name in ARMS if self.urls[name]]
        arms = self.suite.arm_set()
        # Engines on GPUs have all of them, and servers would share one arm's load.
        order: Sequence[Sequence[Name]] = [[name] for name in served]
        if not served:
            order = [["default", "default-again"], ["specialized"]] if arms.stand_in else [[name] for name in ARMS]
        try:
            for names in order:
                left: dict[str, list[str]] = {name: self._command(name) for name in names if not arm.complete(self.there / name)}
                if "specialized" in left and all(self._ended(name) for name in ARMS[:2]):
                    power.run(self.there / ARMS[0], self.there / ARMS[1], self.out)
                side_by_side.run(left, self.there, arms.environment, self._ended, self.out)
        except KeyboardInterrupt:
            self.out.print(f"interrupted; what is recorded is kept, go on with: {self._again()}", markup=False, soft_wrap=True)
            raise
        except InputError as error:
            raise InputError(f"{error}; go on with: {self._again()}") from error
        return self._result()

    def _result(self) -> int:
        if lacking := [name for name in ARMS if not self._ended(name)]:
            self.out.print(f"{', '.join(lacking)} not recorded yet; go on with: {self._again()}", markup=False, soft_wrap=True)
            return Verdict.INVALID.exit_code
        return self._compared()

    def check(self) -> None:
        """InputError, before an engine is started, where data or arguments are not what they should be."""
        arms, served = self.suite.arm_set(), any(self.urls.values())
        if not (arms.stand_in or served):
            raise InputError(f"{arms.name} is not the stand-in: name its servers with --default-url and --specialized-url")
        plantable(self.begun.plant, arms, "specialized", self.urls["specialized"])
        planned(self.suite, self.begun.keyword, self._data())

    def _compared(self) -> int:
        default, again, specialized = (self.there / name for name in ARMS)
        return session.run(default, again, specialized, self.there, self.out)

    def _ended(self, name: str) -> bool:
        return arm.ended(self.there / name)

    def _asked(self, name: Name) -> arm.Asked:
        plant = self.begun.plant if name == "specialized" else None
        again, begun = self._again("--arm", name), self.begun
        default = self.there / ARMS[0] if name == "specialized" and arm.complete(self.there / ARMS[0]) else None
        return arm.Asked(
            begun.suite, self.suite, name, self.there / name, again, self.urls[name], begun.keyword, self._data(), plant, default
        )

    def _command(self, name: Name) -> list[str]:
        return [*COMMAND, "--resume", str(self.there), "--arm", name, *self._options()]

    def _again(self, *more: str) -> str:
        return shlex.join([python(), "-m", "validate", "evals", "--resume", str(self.there), *more, *self._options()])

    def _options(self) -> list[str]:
        of = {"--default-url": self.urls["default"], "--specialized-url": self.urls["specialized"]}
        return [word for option, given in of.items() for url in given for word in (option, url)]

    def _data(self) -> Path | None:
        return Path(self.begun.data) if self.begun.data else None


def begin(output: Path, begun: Begun, urls: Urls, out: Console) -> Run:
    """A new run. InputError, before there is a folder of it, if there is anything wrong with what it is begun with."""
    suite = load(begun.suite)
    Run(begun, suite, output, urls, out).check()
    there = folder.create(output, f"evals-{suite.name}")
    folder.write(there, BEGUN, begun.model_dump_json(indent=2) + "\n")
    return Run(begun, suite, there, urls, out)


def resume(there: Path, wanted: Mapping[str, str | None], urls: Urls, out: Console) -> Run:
    """A run that was begun. InputError if the folder is none, or was begun with another field than ``wanted``."""
    if not (there / BEGUN).is_file():
        raise InputError(f"cannot resume {there}: it holds no run of evals")
    begun = folder.parse(Begun, folder.text(there / BEGUN), f"{there / BEGUN}")
    for name, asked in wanted.items():
        if asked is not None and asked != getattr(begun, name):
            raise InputError(f"cannot resume {there} with another {name}: it was begun with {getattr(begun, name)}, not {asked}")
    return Run(begun, load(begun.suite), there, urls, out)
