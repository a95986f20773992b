"""State drift: KDA's recurrent state against float64, by step."""

from pathlib import Path

from validate.faults import drift as faults
from validate.long_output.drift.outcome import DriftManifest, Outcome
from validate.records import folder as records
from validate.signoff.evidence import Evidence, Line, Lines, Matrix, Source
from validate.signoff.reading import lacking
from validate.signoff.reading.common import made
from validate.verdict import Verdict

PART = "state drift"


def read(folder: Path, source: Source) -> Evidence:
    """A run without every fault planted. InputError if it is damaged."""
    manifest, outcomes = _read(folder)
    sound = [one for one in outcomes if one.seed == 0]
    largest = max((head.largest for one in outcomes for head in one.heads), default=0.0)
    steps = max((one.steps for one in outcomes), default=0)
    return Evidence(
        layer="equivalence",
        part=PART,
        source=source,
        runs_on="emulated",
        ran=f"{', '.join(manifest.subjects)}; heads of made-up decays",
        verdict=manifest.verdict or Verdict.INVALID,
        headline=f"{steps:,} steps, largest relative error of the state {largest:.2g}",
        checks=tuple(
            check.model_copy(update={"name": f"{one.subject} {check.name}, seed {one.seed}"})
            for one in outcomes
            for check in one.checks
        ),
        planted=manifest.arguments.planted,
        lacks=tuple(lacking.of_drift(manifest, outcomes)),
        **made(manifest),
        vllm="not run",
        plots=tuple(map(_curve, sound)),
    )


def matrix(folder: Path, source: Source) -> Matrix:
    """A run of the planted faults."""
    _, outcomes = _read(folder)
    known = faults.catalogue()
    planted = [one for one in outcomes if one.subject in known]
    rows = tuple((one.subject, _by(one), known[one.subject].stands_for) for one in planted)
    alarms = sum(one.subject not in known and one.verdict is Verdict.FAIL for one in outcomes)
    found = sum(one.found_by is not None for one in planted)
    return Matrix(
        layer="equivalence", part=PART, source=source, found=found, planted=len(planted), false_alarms=alarms, rows=rows
    )


def _by(one: Outcome) -> str:
    return "" if one.found_by is None else f"{one.found_by[0]} at step {one.found_by[1]:,}"


def _curve(one: Outcome) -> Lines:
    lines = tuple(
        Line(name=head.title, x=one.curve.steps, y=tuple(row[n] for row in one.curve.state)) for n, head in enumerate(one.heads)
    )
    return Lines(title=f"{one.subject}: error of the state", x_axis="step", y_axis="relative 2-norm", lines=lines)


def _read(folder: Path) -> tuple[DriftManifest, list[Outcome]]:
    manifest = records.versioned(DriftManifest, folder / records.MANIFEST)
    return manifest, records.complete(Outcome, folder / records.MEASUREMENTS)[0]
