"""Numerics: every case's largest figure as a share of its bound, by stage."""

import math
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from pydantic import BaseModel

from validate.records import folder as records
from validate.records.model import Line, Manifest, verdict_of
from validate.report.tables import rows
from validate.signoff.evidence import Box, Boxes, Evidence, Matrix, Source, Table
from validate.signoff.reading import lacking
from validate.signoff.reading.common import kind, made
from validate.verdict import Verdict, worst


def read(folder: Path, source: Source) -> Evidence:
    """A run of a profile. InputError if it is damaged."""
    manifest, lines = records.read_manifest(folder), records.read_lines(folder)
    judged = {line.case for line in lines if line.judged}
    boxes = tuple(_boxes(lines))
    return Evidence(
        layer="numerics",
        part="numerics",
        source=source,
        runs_on=kind(manifest.machine.gpus, emulated=manifest.runs_on == "emulated"),
        ran=f"profile {manifest.profile.name}: {', '.join(manifest.subjects)}",
        verdict=worst([manifest.verdict or Verdict.INVALID, verdict_of(lines, manifest.planned, manifest.runs_on)]),
        headline=_headline(manifest, lines, len(judged)),
        planted=manifest.arguments.planted,
        lacks=tuple(lacking.of_numerics(manifest)),
        deployment={"tensor_parallel_size": manifest.profile.tp[0]} if len(manifest.profile.tp) == 1 else {},
        **made(manifest),
        vllm=manifest.vllm.version if manifest.vllm else "not run",
        tables=(_table(lines),),
        plots=(
            Boxes(title="Largest figure of a case, as a share of its bound", axis="share of the bound", boxes=boxes, limit=1.0),
        )
        if boxes
        else (),
        not_run=manifest.not_run,
    )


def _headline(manifest: Manifest, lines: Iterable[Line], judged: int) -> str:
    ratios = [(_largest(line), line) for line in lines if line.judged and line.subject.endswith("specialized")]
    if not ratios:
        return f"{judged} of {manifest.planned} cases judged"
    ratio, worst = max(ratios, key=lambda one: one[0])
    return f"{judged} of {manifest.planned} cases judged; the largest figure is {ratio:.2f} of its bound ({worst.case})"


def _largest(line: Line) -> float:
    return max((m.ratio for m in line.measurements if m.telling or not m.passed), default=0.0)


def _boxes(lines: Iterable[Line]) -> Iterable[Box]:
    values = defaultdict(list)
    for line in lines:
        if line.judged and math.isfinite(value := _largest(line)):
            values[line.stage, line.subject].append(value)
    for (stage, subject), found in values.items():
        least, low, middle, high, largest = map(float, np.quantile(found, (0, 0.25, 0.5, 0.75, 1)))
        yield Box(label=stage, series=subject, count=len(found), values=(least, low, middle, high, largest))


def _table(lines: Iterable[Line]) -> Table:
    return Table(
        title="Stages",
        header=("stage", "subject", "verdict", "cases judged", "not run", "failed", "nearest to its bound"),
        rows=tuple(
            (
                row.stage,
                row.subject,
                row.verdict.value if row.judged else "not run",
                row.judged,
                row.missing,
                row.failed + row.invalid,
                row.worst_check,
            )
            for row in rows(lines)
        ),
        note="The last column: the check that came nearest to its bound, or furthest beyond it, and the share it takes.",
    )


class Planted(BaseModel):
    """What is read of one planted fault."""

    fault: str
    stands_for: str
    found: bool
    failed: tuple[str, ...]


def matrix(folder: Path, source: Source) -> Matrix:
    """A run of the planted faults: ``faults.jsonl``."""
    found = records.complete(Planted, folder / "faults.jsonl")[0]
    rows = tuple((row.fault, ", ".join(row.failed), row.stands_for) for row in found)
    alarms = {row.fault for row in found}
    wrong = sum(
        line.subject not in alarms and line.verdict is not Verdict.PASS for line in records.read_lines(folder) if line.judged
    )
    count = sum(row.found for row in found)
    return Matrix(
        layer="numerics", part="numerics", source=source, found=count, planted=len(found), false_alarms=wrong, rows=rows
    )
