"""What a run record holds, as data. Reading checks every field."""

import math
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from validate.profiles import Profile
from validate.stages import DEFAULT_ONLY
from validate.verdict import Verdict, worst

SCHEMA_VERSION: Literal[1] = 1


class Record(BaseModel):
    """A part of a record: fixed, and of the fields that it declares only."""

    # Figures may be NaN or infinite, which JSON has no numbers for: written as the strings "NaN" and "Infinity".
    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")


class Measured(Record):
    """One check of one tensor. ``figure`` must not exceed ``bound``; units, and what ``error`` is: numerics/acceptance.py."""

    tensor: str
    check: str
    figure: float
    bound: float
    passed: bool
    detail: str = ""
    error: float | None = None

    @property
    def ratio(self) -> float:
        """How much of its bound the figure takes: above 1 fails. A bound of 0 allows 0 only."""
        if math.isnan(self.figure):
            return math.inf
        if self.bound == 0:
            return 0.0 if self.figure == 0 else math.inf
        return self.figure / self.bound

    @property
    def telling(self) -> bool:
        """Whether it could have failed: no share exceeds 1, and an error as large as the tensor has lost all of it.

        Such a bound arises where the default path, twice whose error is allowed, is that bad itself, or where fp32 sums
        in another order are. The ``rounding`` check, which compares with nobody, has none.
        """
        return self.check not in ("no_worse", "no_worse_row", "share") or self.bound < 1


class Line(Record):
    """One line of ``measurements.jsonl``: one subject on one case.

    ``seconds`` is one call of the subject. ``missing`` says why the subject does not run such cases, ``error`` why it
    should have and did not, ``note`` what of the stage is not the subject's own. ``ranks``: how many processes torchrun had
    started for the case; None without torchrun.
    """

    case: str
    stage: str
    sizes: dict[str, int]
    inputs: str
    seed: int
    subject: str
    seconds: float = 0.0
    missing: str | None = None
    error: str | None = None
    note: str | None = None
    ranks: int | None = None
    measurements: tuple[Measured, ...] = ()

    @property
    def judged(self) -> bool:
        """Whether there is anything to judge: the subject runs such cases."""
        return self.missing is None

    @property
    def verdict(self) -> Verdict:
        """INVALID without a measurement, FAIL if any check failed. Meaningless where ``judged`` is false."""
        if self.error is not None or not self.measurements:
            return Verdict.INVALID
        return Verdict.PASS if all(m.passed and m.ratio <= 1 for m in self.measurements) else Verdict.FAIL

    @property
    def failures(self) -> list[Measured]:
        """The checks that failed, the one furthest beyond its bound first."""
        return sorted((m for m in self.measurements if not m.passed), key=lambda m: -m.ratio)


class Arguments(Record):
    """What a person asked for; the same arguments give the same cases and subjects."""

    mode: Literal["numerics", "faults", "bench"] = "numerics"
    profile: str = "cpu"
    keyword: str | None = None
    seeds: int
    planted: str | None = None
    vllm_src: str | None = None


class Machine(Record):
    """Where it ran. ``memory_gib`` is the machine's, not what was used. ``gpus``: name, driver, compute capability of each.

    ``image``: the digest of the container image, as whoever started the container says (``provenance.IMAGE``).
    """

    system: str
    cpu: str
    cores: int
    memory_gib: float
    gpus: tuple[str, ...] = ()
    image: str | None = None

    @property
    def kind(self) -> dict[str, Any]:
        """What two runs that go together have alike: the memory of two nodes of one kind may differ by what firmware takes."""
        return self.model_dump(exclude={"memory_gib"})


class NotRun(Record):
    """A check that was not run, and why. A reader must not take silence for a pass."""

    what: str
    why: str


class VllmFiles(Record):
    """Which vLLM was run: its version, its commit, and the digest of each of its files that was imported."""

    version: str
    commit: str | None
    files: dict[str, str]


class Compared(Record):
    """By which code arms were compared, as ``provenance.code`` finds it: it decides as much as the one that recorded them."""

    commit: str | None = None
    dirty: bool | None = None
    source: str = ""


class Made(Record):
    """By which code a record was made, on which machine and when, as ``provenance.made`` finds it.

    ``versions`` of what it depends on. ``source`` is a digest of the package's files: only the same code resumes a record. Times
    are UTC, ISO 8601; ``end`` is None while it runs and after an interruption.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    versions: dict[str, str]
    source: str
    commit: str | None
    dirty: bool | None
    machine: Machine
    start: str
    end: str | None = None


class Manifest(Made):
    """``manifest.json`` of a run of numerics, and how it ended. ``planned`` counts the cases.

    ``verdict`` and ``exit_code`` are None where ``end`` is.
    """

    layer: Literal["numerics"] = "numerics"
    arguments: Arguments
    profile: Profile
    runs_on: str
    subjects: tuple[str, ...]
    stages: tuple[str, ...]
    planned: int
    vllm: VllmFiles | None = None
    seconds: float | None = None
    verdict: Verdict | None = None
    exit_code: int | None = None
    not_run: tuple[NotRun, ...] = ()


def verdict_of(lines: list[Line], planned: int, runs_on: str = "emulated") -> Verdict:
    """A run's verdict: the worst of its lines; INVALID when a planned case or every judgement is missing.

    On GB300 a case counts only if vLLM's kernels, and nothing else, ran the whole of it: else INCONCLUSIVE.
    """
    verdicts = [line.verdict for line in lines if line.judged]
    if not verdicts or len({line.case for line in lines}) < planned:
        verdicts.append(Verdict.INVALID)
    if runs_on == "gb300" and len(whole_cases(lines)) < planned:
        verdicts.append(Verdict.INCONCLUSIVE)
    return worst(verdicts)


def whole_cases(lines: list[Line]) -> set[str]:
    """The cases of which vLLM's specialized kernels ran the whole stage; the default path's, where only that has the stage."""
    whole = [line for line in lines if line.judged and line.note is None]
    return {line.case for line in whole if line.subject == f"vllm-{'default' if line.stage in DEFAULT_ONLY else 'specialized'}"}
