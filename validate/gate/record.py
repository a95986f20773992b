"""What a run of the gate leaves: ``gate.json``, a folder for each step, ``summary.md`` and ``junit.xml``."""

from pathlib import Path

from validate.errors import InputError
from validate.gate.profile import Need, Profile, Step
from validate.records import folder
from validate.records.model import Made, Record
from validate.verdict import Verdict, worst

GATE = "gate.json"


class StepRecord(Record):
    """One step. ``command`` is the last that was run, ``again`` the layer's own that goes on with its record.

    ``given``: what it needs and was given, in any call. ``exit_code``: of the last command; negative after a signal.
    ``record`` and ``log`` are paths within the run's folder. ``reasons``: why it is no PASS, the first findings. ``verdict``
    is None before it is run and after an interruption.
    """

    step: Step
    given: tuple[Need, ...] = ()
    command: tuple[str, ...] = ()
    verdict: Verdict | None = None
    exit_code: int | None = None
    seconds: float = 0.0
    record: str | None = None
    log: str | None = None
    again: str | None = None
    reasons: tuple[str, ...] = ()

    @property
    def lacking(self) -> tuple[Need, ...]:
        """What it needs and was not given yet."""
        return tuple(need for need in self.step.needs if need not in self.given)

    @property
    def ended(self) -> bool:
        """Whether there is nothing left to run of it. What is INVALID proves nothing, and its cause may be mended."""
        return self.verdict is Verdict.FAIL or (self.verdict in (Verdict.PASS, Verdict.INCONCLUSIVE) and not self.lacking)


class Gate(Made):
    """``gate.json``. ``profile_name`` is as it was named. ``end``, ``verdict`` and ``exit_code``: of the last call that ended."""

    profile_name: str
    profile: Profile
    keep_going: bool
    verdict: Verdict | None = None
    exit_code: int | None = None
    steps: tuple[StepRecord, ...]

    @property
    def seconds(self) -> float:
        """Of all steps."""
        return sum(one.seconds for one in self.steps)

    @property
    def proven(self) -> StepRecord | None:
        """The first step that proved a defect."""
        return next((one for one in self.steps if one.verdict is Verdict.FAIL), None)

    @property
    def judged(self) -> Verdict:
        """The worst of the steps; a step that was not run, or not to its end, proves nothing: INVALID."""
        return worst(one.verdict or Verdict.INVALID for one in self.steps)


def write(there: Path, gate: Gate) -> None:
    """``gate.json``."""
    folder.write(there, GATE, gate.model_dump_json(indent=2) + "\n")


def read(there: Path) -> Gate:
    """A run, ended or not. InputError if the folder is none, or it is damaged."""
    if not (there / GATE).is_file():
        raise InputError(f"cannot resume {there}: it holds no run of the gate")
    return folder.versioned(Gate, there / GATE)
