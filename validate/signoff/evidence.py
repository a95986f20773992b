"""What one record contributes to a sign-off, whichever layer made it."""

from typing import Literal

from pydantic import Field

from validate.equivalence.compare.finding import Check
from validate.records.model import Machine, NotRun, Record
from validate.signoff.measured import Measurement
from validate.verdict import Verdict

Layer = Literal["numerics", "races", "equivalence", "evals"]
LAYERS: tuple[Layer, ...] = ("numerics", "races", "equivalence", "evals")
RunsOn = Literal["emulated", "models", "hopper", "gb300", "other"]
Cell = str | int | float
DRAFTS, NO_DRAFTS = "drafts", "none"  # of a deployment: the method and how many tokens


class Box(Record):
    """A distribution: least, lower quartile, median, upper quartile and largest value. ``count``: how many values."""

    label: str
    series: str
    count: int
    values: tuple[float, float, float, float, float]


class Boxes(Record):
    """Distributions side by side; ``limit``: the line that none may cross."""

    kind: Literal["boxes"] = "boxes"
    title: str
    axis: str
    boxes: tuple[Box, ...]
    limit: float


class Line(Record):
    """Values over positions, with bounds where there are any."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


class Lines(Record):
    """Lines over one axis, which is logarithmic in base 2 and begins at 0."""

    kind: Literal["lines"] = "lines"
    title: str
    x_axis: str
    y_axis: str
    lines: tuple[Line, ...]


class Interval(Record):
    """An estimate with its one-sided bounds; below ``margin`` it would be a loss that is not granted."""

    label: str
    value: float
    low: float
    high: float
    margin: float


class Intervals(Record):
    """Estimates under each other."""

    kind: Literal["intervals"] = "intervals"
    title: str
    axis: str
    intervals: tuple[Interval, ...]


Plot = Boxes | Lines | Intervals


class Table(Record):
    """``note``: what its figures are."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


class Source(Record):
    """A record, and the digest of its files' hashes (``records/seal.py``). ``verified``: they were there, and are unaltered."""

    name: str
    digest: str
    verified: bool


class Evidence(Record):
    """One record.

    ``part``: what of the layer it is, as ``required`` names it. ``headline``: its figures in one line. ``proof``: how many decode
    steps ran on the specialized path, None where no engine was run; ``attested``: whether that is proof. ``apart``: what differs
    between the arms. ``failures``: rates of answers that are none. ``weights``: the model's digest, ``data``: each task's.
    ``deployment``: the engine's arguments by which two records are of one. ``planted``: a fault that was planted, so that it
    says nothing of the paths. ``lacks``: what it has not of the whole of its part, though it may be right in all that it has.
    ``measured``: speeds, which nothing is judged by.
    """

    layer: Layer
    part: str
    source: Source
    arms: tuple[Source, ...] = ()
    runs_on: RunsOn
    ran: str
    verdict: Verdict
    headline: str
    checks: tuple[Check, ...] = ()
    planted: str | None = None
    lacks: tuple[str, ...] = ()
    proof: str | None = None
    attested: bool | None = None
    apart: str = ""
    failures: str = ""
    weights: str | None = None
    data: dict[str, str] = Field(default_factory=dict)
    deployment: dict[str, Cell] = Field(default_factory=dict)
    suite: str | None
    dirty: bool | None
    code: str
    vllm: str
    machine: Machine
    start: str
    end: str | None
    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()
    not_run: tuple[NotRun, ...] = ()
    measured: tuple[Measurement, ...] = ()

    @property
    def drafts(self) -> str:
        """With which the engine ran."""
        return str(self.deployment.get(DRAFTS, NO_DRAFTS))


class Matrix(Record):
    """What the suite finds of planted faults: the record of one ``--faults`` run."""

    layer: Layer
    part: str
    source: Source
    found: int
    planted: int
    false_alarms: int
    rows: tuple[tuple[str, str, str], ...]  # fault, found by, what it stands for
