"""What a record of state drift holds, as data."""

from typing import Literal

from validate.equivalence.compare.finding import Check, Finding
from validate.records.model import Made, Record
from validate.verdict import Verdict, worst


class Head(Record):
    """One head of one subject. Errors are 2-norms relative to the float64 state's.

    ``memory``: steps in which its channels decay to 1 / e, in the mean. ``error`` and ``bound``: at the last step; ``largest``
    and ``output``: of all sampled steps. ``samples``: on which growth was tested; its ``exponent``, and the p-value ``rises``.
    """

    memory: float
    error: float
    largest: float
    output: float
    bound: float
    samples: int
    exponent: float | None = None
    rises: float | None = None

    @property
    def title(self) -> str:
        """For people."""
        return f"memory {self.memory:.3g} steps"


class Curve(Record):
    """Errors of the state, [samples, heads], at some of the sampled steps."""

    steps: tuple[int, ...]
    state: tuple[tuple[float, ...], ...]
    bound: tuple[tuple[float, ...], ...]


class Outcome(Record):
    """One line of ``measurements.jsonl``: one subject on one seed's stream, over ``steps`` steps.

    ``out``: the check that a sample fails first, and that step; growth is no sample's.
    """

    seed: int
    subject: str
    steps: int
    heads: tuple[Head, ...]
    checks: tuple[Check, ...]
    curve: Curve
    out: tuple[str, int] | None = None

    @property
    def verdict(self) -> Verdict:
        """The worst of its checks."""
        return worst(check.verdict for check in self.checks if check.verdict is not None)

    @property
    def found_by(self) -> tuple[str, int] | None:
        """The check that fails, a sample's before growth, and the step at which that is known."""
        grows = any(check.name == "growth" and check.verdict is Verdict.FAIL for check in self.checks)
        return self.out or (("growth", self.steps) if grows else None)

    def told(self, finding: Finding) -> str:
        """A finding for a person."""
        step = "" if finding.position is None else f" from step {finding.position:,} on"
        return f"{finding.verdict} {self.subject}, seed {self.seed}{step}: {finding.text}"


class Arguments(Record):
    """What was asked for. ``mode``: ``faults`` runs every planted fault beside the sound paths."""

    steps: int
    seeds: int = 1
    planted: str | None = None
    mode: Literal["drift", "faults"] = "drift"


class DriftManifest(Made):
    """``manifest.json``: what was run, and how it ended."""

    layer: Literal["drift"] = "drift"
    arguments: Arguments
    subjects: tuple[str, ...]
    seconds: float = 0.0
    verdict: Verdict | None = None
    exit_code: int | None = None
