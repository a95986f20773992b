"""Evidence for a release that may be signed, and changes to it."""

from typing import Any

from validate.equivalence.compare.finding import Check, Finding
from validate.records.model import Machine
from validate.signoff.evidence import Box, Boxes, Evidence, Interval, Intervals, Line, Lines, Matrix, Source, Table
from validate.signoff.reading import drift, engines, evals, races
from validate.signoff.reading.gathering import Gathered
from validate.verdict import Verdict

IMAGE = "sha256:" + "1" * 64
GB300 = Machine(system="Linux", cpu="a CPU", cores=64, memory_gib=900.0, gpus=("NVIDIA GB300, 1, 10.3",) * 8, image=IMAGE)
CPU = Machine(system="Linux", cpu="a CPU", cores=2, memory_gib=8.0)
TASKS = {"aime25": "a1", "gpqa_diamond": "b2", "gsm8k": "c3", "mrcr_v2": "d4"}
PLOTS = (
    Boxes(
        title="Figures",
        axis="share of the bound",
        boxes=(Box(label="kda", series="vllm-specialized", count=9, values=(0.1, 0.2, 0.3, 0.5, 0.9)),),
        limit=1.0,
    ),
    Lines(title="Apart", x_axis="position", y_axis="nats", lines=(Line(name="specialized", x=(0, 1, 16), y=(0.1, 0.2, 0.1)),)),
    Intervals(title="Scores", axis="points", intervals=(Interval(label="gsm8k", value=-0.1, low=-0.9, high=0.7, margin=-1.5),)),
)


def evidence(part: str = "numerics", layer: Any = "numerics", **changes: Any) -> Evidence:
    """Of one part, on GB300."""
    fields: dict[str, Any] = {
        "layer": layer,
        "part": part,
        "source": Source(name=f"run of {part}", digest="a" * 64, verified=True),
        "runs_on": "gb300",
        "ran": "vLLM's kernels",
        "verdict": Verdict.PASS,
        "headline": "all of it",
        "checks": (Check(name="all", verdict=Verdict.PASS, detail="1 of 1"),),
        "suite": "c" * 40,
        "dirty": False,
        "code": "0" * 16,
        "vllm": "0.33.0",
        "machine": GB300,
        "start": "2026-01-01T00:00:00Z",
        "end": "2026-01-01T01:00:00Z",
    }
    return Evidence.model_validate(fields | changes)


def engine(part: str, layer: Any, **changes: Any) -> Evidence:
    """Of a part that compares arms."""
    fields: dict[str, Any] = {
        "proof": "99 of 99 decode steps ran specialized",
        "attested": True,
        "apart": "all alike but for decode_backend",
        "weights": "e" * 16,
        "deployment": {"tensor_parallel_size": 8, "drafts": "none"},
        "arms": (Source(name="default", digest="b" * 64, verified=True),),
    }
    return evidence(part, layer, **(fields | changes))


def whole() -> list[Evidence]:
    """One record of each part that a sign-off asks for."""
    return [
        evidence(plots=PLOTS[:1], deployment={"tensor_parallel_size": 8}),
        evidence(races.MODELS, "races", runs_on="models", machine=CPU),
        engine(engines.COMPANY, "races"),
        engine(engines.WHOLE, "equivalence", plots=PLOTS[1:2]),
        engine(engines.LONG, "equivalence"),
        evidence(drift.PART, "equivalence", runs_on="emulated", machine=CPU),
        engine(evals.PART, "evals", data=TASKS, plots=PLOTS[2:]),
    ]


def changed(part: str, **changes: Any) -> list[Evidence]:
    """The whole with one part changed."""
    return [one.model_copy(update=changes) if one.part == part else one for one in whole()]


def gathered(given: list[Evidence]) -> Gathered:
    """With a matrix of planted faults."""
    source = Source(name="faults", digest="f" * 64, verified=True)
    rows = (("decay-cut", "no_worse", "a sum cut off"), ("row-stale", "", "a row is not stored"))
    matrix = Matrix(layer="numerics", part="numerics", source=source, found=1, planted=2, false_alarms=0, rows=rows)
    return Gathered(tuple(given), (matrix,))


def finding(verdict: Verdict, text: str) -> Check:
    """A check with one finding."""
    return Check(name="all", verdict=verdict, detail="", findings=(Finding(verdict=verdict, text=text),))


def table(rows: int, text: str = "an item") -> Table:
    """A long one."""
    return Table(title="Items", header=("item", "score"), rows=tuple((f"{text} {n}", n) for n in range(rows)))
