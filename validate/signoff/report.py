"""The whole of a sign-off as data: ``report.json``, whose schema is docs/signoff.schema.json."""

import json
from collections.abc import Sequence
from typing import Literal

from validate.records import folder
from validate.records.model import SCHEMA_VERSION, Record
from validate.signoff.claims import Row, load, rows
from validate.signoff.evidence import LAYERS, NO_DRAFTS, Cell, Evidence, Layer, Matrix, Table
from validate.signoff.reading import races
from validate.signoff.reading.gathering import Gathered
from validate.signoff.required import PARTS, Refusal, refusals, verdict
from validate.verdict import Verdict, worst

SIGNED, REFUSED = "May be signed", "Not signed"
NAMES = {
    "emulated": "emulated on a CPU",
    "models": "models of the protocols",
    "hopper": "vLLM's kernels on a Hopper GPU",
    "gb300": "vLLM's kernels on GB300",
    "other": "vLLM's kernels on another GPU",
}


class Report(Record):
    """``verdict``: PASS only where ``refusals`` is empty. ``image``: which was asked for. ``made``: UTC.

    ``left_out``: folders whose records say nothing that a release is judged by.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    layer: Literal["signoff"] = "signoff"
    verdict: Verdict
    exit_code: int
    made: str
    image: str | None
    refusals: tuple[Refusal, ...]
    evidence: tuple[Evidence, ...]
    matrices: tuple[Matrix, ...]
    claims: tuple[Row, ...]
    left_out: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The decision in words."""
        return SIGNED if self.verdict is Verdict.PASS else REFUSED

    def of(self, layer: Layer) -> list[Evidence]:
        """A layer's evidence, in the order of the parts."""
        order = [part.name for part in PARTS]
        found = [one for one in self.evidence if one.layer == layer]
        return sorted(found, key=lambda one: order.index(one.part) if one.part in order else len(order))

    def judged(self, layer: Layer) -> Verdict | None:
        """The worst verdict of a layer's records, and of why they do not do; None where it has none."""
        found = [one.verdict for one in self.of(layer) if one.planted is None]
        return worst([*found, verdict([one for one in self.refusals if one.layer == layer])]) if found else None

    def ran(self) -> list[str]:
        """What was run on what, in words; of the three, those that were not run are said, too."""
        kinds = {one.runs_on for one in self.evidence}
        said = [NAMES[kind] for kind in NAMES if kind in kinds]
        return said + [f"not: {NAMES[kind]}" for kind in ("emulated", "hopper", "gb300") if kind not in kinds]


def made(gathered: Gathered, image: str | None) -> Report:
    """The report of some records."""
    found = refusals(gathered.evidence, image)
    decided = verdict(found)
    return Report(
        verdict=decided,
        exit_code=decided.exit_code,
        made=folder.now(),
        image=image,
        refusals=tuple(found),
        evidence=gathered.evidence,
        matrices=gathered.matrices,
        left_out=gathered.left_out,
        claims=tuple(rows(load(), [measured for one in gathered.evidence for measured in one.measured])),
    )


def published(report: Report) -> list[Table]:
    """The published figures beside the measured ones, a table a metric: what is of different metrics is in no one table."""
    return [
        Table(
            title=f"{metric}, {unit}",
            header=CLAIMS,
            rows=tuple(_claim(row) for row in report.claims if (row.metric, row.unit) == (metric, unit)),
        )
        for metric, unit in dict.fromkeys((row.metric, row.unit) for row in report.claims)
    ]


def _claim(row: Row) -> tuple[Cell, ...]:
    values = row.published.model_dump(mode="json")
    told = ", ".join(f"{name} {value}" for name, value in values.items() if value is not None) or row.statement or "-"
    found = row.measured
    ours = (
        f"specialized {found.specialized:g}, default {found.default:g}, {found.speed_up:.2f} times ({found.record})"
        if found
        else "-"
    )
    why = "; ".join(row.why_not)
    return f"{row.source}, {row.date}", row.stage.value, row.conditions, told, ours, why


def schema() -> str:
    """The JSON Schema of ``report.json``."""
    return json.dumps(Report.model_json_schema(mode="serialization"), indent=2) + "\n"


def screen(report: Report) -> list[tuple[str, ...]]:
    """The first screen's table: a row a record, layer by layer; a part that there is no record of has a row, too."""
    found: list[tuple[str, ...]] = []
    for layer in LAYERS:
        for one in report.of(layer):
            said = f"planted: {one.planted}" if one.planted else one.headline
            part = one.part if one.drafts == NO_DRAFTS else f"{one.part}, drafts {one.drafts}"
            found.append((layer, part, NAMES[one.runs_on], one.verdict.value, said, _path(one), one.failures or "-"))
        there = {one.part for one in report.of(layer)}
        lacking = [part.name for part in PARTS if part.layer == layer and part.name not in there]
        found += [(layer, name, "-", "not run", "no record", "-", "-") for name in lacking]
    return found


def _path(one: Evidence) -> str:
    if one.attested is None:
        return "-"
    return f"{'attested' if one.attested else 'not attested'}: {one.proof or 'steps were not counted'}"


def not_run(report: Report) -> Table:
    """What was left out, and why: by the records themselves, and of what a sign-off would show beside them."""
    found: list[tuple[Cell, ...]] = [(one.part, entry.what, entry.why) for one in report.evidence for entry in one.not_run]
    parts = {one.part for one in report.evidence}
    found += [("races", name, "no record was given; it is not asked for") for name in BESIDE if name not in parts]
    tried = {matrix.layer for matrix in report.matrices}
    found += [(layer, "planted faults", "no record of --faults was given") for layer in FAULTS if layer not in tried]
    found += [("-", name, "its record says nothing that a release is judged by") for name in report.left_out]
    return Table(title="Not run", header=("of", "what", "why"), rows=tuple(found))


def identity(report: Report) -> list[tuple[str, str]]:
    """What the records are of, each value once. A release has one image, suite, vLLM and weights."""
    images = [one.machine.image or "not recorded" for one in report.evidence if one.runs_on == "gb300"]
    data = [f"{name} {digest}" for one in report.evidence for name, digest in one.data.items()]
    found = {
        "image": images or ([f"of no record; asked for: {report.image}"] if report.image else []),
        "suite": [f"{(one.suite or 'unknown')[:12]}{' and changes' if one.dirty else ''}" for one in report.evidence],
        "vLLM": [one.vllm for one in report.evidence if "not run" not in one.vllm],
        "arms": [one.apart for one in report.evidence if one.apart],
        "engines": [_engine(one) for one in report.evidence if one.weights],
        "weights": [one.weights for one in report.evidence if one.weights],
        "data": data,
    }
    return [(name, ", ".join(dict.fromkeys(values)) or "none") for name, values in found.items()]


def _engine(one: Evidence) -> str:
    return f"tensor parallel {one.deployment.get('tensor_parallel_size', 1)}, drafts {one.drafts}"


def provenance(evidence: Sequence[Evidence]) -> list[tuple[str, ...]]:
    """A row a record: what it was made of, where and when, and its digest."""
    return [
        (
            one.source.name,
            f"{one.layer}, {one.part}",
            f"{(one.suite or 'unknown')[:12]}{' and changes' if one.dirty else ''}",
            one.vllm,
            one.machine.image or "-",
            ", ".join(sorted({gpu.split(",")[0] for gpu in one.machine.gpus})) or one.machine.cpu,
            one.weights or "-",
            "; ".join(f"{name} {digest}" for name, digest in one.data.items()) or "-",
            f"{one.start} to {one.end or 'not ended'}",
            one.source.digest,
        )
        for one in evidence
    ]


PROVENANCE = ("record", "of", "suite", "vLLM", "image", "machine", "weights", "data", "made", "SHA-256 of its hashes")
CLAIMS = ("source", "stage", "conditions", "published", "measured", "why nothing measured stands beside it")
SCREEN = ("layer", "part", "ran on", "verdict", "figures", "steps on the specialized path", "responses that are no answers")
BESIDE = (races.KERNELS, races.SANITIZER)
FAULTS: tuple[Layer, ...] = ("numerics", "races", "equivalence")  # layers with a run of --faults of their own


if __name__ == "__main__":  # python -m validate.signoff.report > docs/signoff.schema.json
    print(schema(), end="")
