"""Benchmarks: paired differences with their intervals and margins."""

from collections.abc import Iterator
from pathlib import Path

from evals.comparing.comparison import Comparison
from validate.equivalence.compare import shown
from validate.records import folder as records
from validate.signoff.evidence import Evidence, Interval, Intervals, Source, Table
from validate.signoff.reading import lacking
from validate.signoff.reading.common import compared

PART = "benchmarks"


def read(folder: Path, source: Source, arms: tuple[Source, ...]) -> Evidence:
    """A comparison of evals. InputError if it is damaged."""
    comparison = records.versioned(Comparison, folder / "comparison.json")
    arm = comparison.arms[-1]
    intervals = tuple(
        Interval(label=t.name, value=100 * t.difference, low=100 * t.low, high=100 * t.high, margin=-100 * t.margin)
        for t in comparison.tasks
    )
    title, axis = "Scores, specialized less default", "points of 100"
    return Evidence(
        layer="evals",
        part=PART,
        source=source,
        arms=arms,
        ran=f"suite {Path(arm.suite).stem}: {shown.what_ran(arm)}",
        verdict=comparison.verdict,
        headline="; ".join(_said(comparison)) or "no task could be compared",
        lacks=tuple(lacking.of_benchmarks(comparison)),
        failures=_failures(comparison),
        data={plan.name: plan.digest for plan in arm.tasks},
        **compared(comparison.arms, arm, comparison.checks, comparison),
        tables=(*_scores(comparison), *_ends(comparison), *_flipped(comparison)),
        plots=(Intervals(title=title, axis=axis, intervals=intervals),) if intervals else (),
    )


def _said(comparison: Comparison) -> Iterator[str]:
    yield from (f"{task.name} {task.says}" for task in comparison.tasks)
    yield from (f"ALARM {alarm}" for alarm in comparison.alarms)


def _failures(comparison: Comparison) -> str:
    counted: dict[str, tuple[int, int]] = {}
    for end in comparison.ends:
        default, specialized = counted.get(end.name, (0, 0))
        counted[end.name] = default + end.default, specialized + end.specialized
    said = [f"{name} {default} and {specialized}" for name, (default, specialized) in counted.items() if default or specialized]
    return "; ".join(said) + " (default and specialized)" if said else "none" if comparison.ends else ""


def _scores(comparison: Comparison) -> tuple[Table, ...]:
    header = ("task", "pairs", "default", "specialized", "difference", "from", "to", "margin", "A/A", "verdict")
    rows = tuple(
        (
            f"{t.name} ({t.metric})",
            t.pairs,
            round(100 * t.default, 2),
            round(100 * t.specialized, 2),
            round(100 * t.difference, 2),
            round(100 * t.low, 2),
            round(100 * t.high, 2),
            round(100 * t.margin, 2),
            "not run" if t.again is None else round(100 * t.again[0], 2),
            t.verdict or "not judged",
        )
        for t in comparison.tasks
    )
    return (Table(title="Scores", header=header, rows=rows, note="Points of 100; bounds are one-sided, 95 %."),) if rows else ()


def _ends(comparison: Comparison) -> tuple[Table, ...]:
    rows = tuple(
        (end.task, end.name, end.default, end.specialized, end.asked, end.verdict or "not judged")
        for end in comparison.ends
        if end.default or end.specialized
    )
    header = ("task", "end", "default", "specialized", "responses an arm", "verdict")
    return (Table(title="How responses end", header=header, rows=rows, note="All but scored answers."),) if rows else ()


def _flipped(comparison: Comparison) -> tuple[Table, ...]:
    rows = tuple((f.task, f.item, f.stratum, f.default, f.specialized, f.pairs) for f in comparison.flipped)
    counts = ", ".join(f"{task} {count}" for task, count in comparison.flips.items())
    header = ("task", "item", "stratum", "default", "specialized", "pairs")
    note = f"Items whose sums of scores differ: {counts}. The largest differences."
    return (Table(title="Flipped items", header=header, rows=rows, note=note),) if rows else ()
