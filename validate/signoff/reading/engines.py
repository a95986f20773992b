"""Whole engines: greedy and forced decoding, changing company, long outputs."""

from pathlib import Path

from validate.equivalence.compare import shown
from validate.equivalence.compare.comparison import Comparison
from validate.equivalence.compare.finding import Check
from validate.equivalence.compare.tokens import counts
from validate.long_output.comparing.comparison import LongComparison
from validate.records import folder as records
from validate.records.detection import Detection
from validate.signoff.evidence import Evidence, Line, Lines, Matrix, Plot, Source, Table
from validate.signoff.measured import measurements
from validate.signoff.reading import lacking
from validate.signoff.reading.common import compared

WHOLE, COMPANY, LONG = "whole engines", "changing company", "long outputs"
WANTED = {WHOLE: lacking.DEPLOYED, COMPANY: lacking.COMPANY, LONG: lacking.LONG}
FROM = "positions from "


def read(folder: Path, source: Source, arms: tuple[Source, ...]) -> Evidence:
    """A comparison of arms: of whole engines, or of the same requests in changing company. InputError if it is damaged."""
    comparison = records.versioned(Comparison, folder / "comparison.json")
    company = Path(comparison.arms[2].arm_set).stem.startswith("company")
    found = _evidence(comparison, source, arms, COMPANY if company else WHOLE, comparison.checks, ())
    return found.model_copy(update={"measured": measurements(comparison, source.name)})


def read_long(folder: Path, source: Source, arms: tuple[Source, ...]) -> Evidence:
    """A comparison of long outputs."""
    comparison = records.versioned(LongComparison, folder / "comparison.json")
    rates = tuple(
        (
            r.name,
            r.outputs,
            r.default,
            r.again,
            r.specialized,
            f"{100 * r.low:.2f} to {100 * r.high:.2f}",
            100 * r.margin,
            r.verdict,
        )
        for r in comparison.rates
    )
    header = ("sign", "outputs an arm", "default", "again", "specialized", "growth in points", "granted", "verdict")
    table = Table(title="Signs of degeneration", header=header, rows=rates, note="Bounds are one-sided, 95 %.")
    plots: list[Plot] = []
    if comparison.growth is not None and comparison.growth.bands:
        bands = comparison.growth.bands
        line = Line(name="specialized / noise", x=tuple(b.start for b in bands), y=tuple(b.ratio for b in bands))
        plots.append(Lines(title="Differences of long outputs", x_axis="position", y_axis="ratio to the noise", lines=(line,)))
    found = _evidence(comparison.engines, source, arms, LONG, comparison.checks, (table,) if rates else ())
    return found.model_copy(update={"verdict": comparison.verdict, "plots": (*found.plots, *plots)})


def matrix(folder: Path, source: Source) -> Matrix:
    """What was found of the faults that were planted in whole engines."""
    detection = records.versioned(Detection, folder / "detection.json")
    arm_set = Path(detection.arms).stem
    part = LONG if arm_set.startswith("long") else COMPANY if arm_set.startswith("company") else WHOLE
    rows = tuple(
        (one.name, f"{one.first} after {one.tokens[one.first]} tokens" if one.found else "", one.stands_for)
        for one in detection.faults
    )
    return Matrix(
        layer="races" if part == COMPANY else "equivalence",
        part=f"{part} ({arm_set})",
        source=source,
        found=sum(one.found for one in detection.faults),
        planted=len(detection.faults),
        false_alarms=int(detection.sound.found),
        rows=rows,
    )


def _evidence(
    comparison: Comparison,
    source: Source,
    arms: tuple[Source, ...],
    part: str,
    checks: tuple[Check, ...],
    tables: tuple[Table, ...],
) -> Evidence:
    arm = comparison.arms[2]  # the fourth is float32
    return Evidence(
        layer="races" if part == COMPANY else "equivalence",
        part=part,
        source=source,
        arms=arms,
        ran=shown.what_ran(arm),
        verdict=comparison.verdict,
        headline=_headline(comparison),
        lacks=tuple(lacking.of_engines(comparison, WANTED[part], part == COMPANY)),
        **compared(comparison.arms, arm, checks, comparison),
        tables=(*tables, *_steps(comparison)),
        plots=_positions(comparison),
    )


def _headline(comparison: Comparison) -> str:
    said = [f"{comparison.compared} requests"]
    if comparison.greedy:
        said.append(counts(comparison.greedy))
    statistics = comparison.forced.statistics if comparison.forced else ()
    size = next((s for s in statistics if s.group == "all" and s.name == "size"), None)
    if size is not None:
        of = f"{size.allowed:.3g} allowed, {comparison.noise} {size.noise:.3g}"
        said.append(f"forced logprobs apart by {size.specialized:.3g}, {of}")
    return "; ".join(said)


def _steps(comparison: Comparison) -> tuple[Table, ...]:
    rows = tuple(
        (row.scene, row.steps.path, row.steps.kind, row.steps.rows, row.steps.q, row.steps.count, row.steps.reason)
        for row in comparison.steps
    )
    header = ("scene", "path", "kind", "rows", "tokens a request", "steps", "why not specialized")
    title, note = "Steps of the specialized arm, by path", "As the engine itself counted them; rows are padded."
    return (Table(title=title, header=header, rows=rows, note=note),) if rows else ()


def _positions(comparison: Comparison) -> tuple[Plot, ...]:
    """How far forced logprobs are apart, by position."""
    if comparison.forced is None:
        return ()
    sizes = [s for s in comparison.forced.statistics if s.name == "size" and s.group.startswith(FROM)]
    x = tuple(float(s.group.removeprefix(FROM)) for s in sizes)
    if not x:
        return ()
    lines = tuple(
        Line(name=name, x=x, y=y)
        for name, y in (
            ("specialized", tuple(s.specialized for s in sizes)),
            (comparison.noise, tuple(s.noise for s in sizes)),
            ("allowed", tuple(s.allowed for s in sizes)),
        )
    )
    return (Lines(title="Forced decoding: how far apart", x_axis="position", y_axis="rms in nats of a logit", lines=lines),)
