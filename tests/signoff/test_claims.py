"""Published figures stand beside measured ones only where metric, stage and every condition are the same."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from validate.errors import InputError
from validate.signoff.claims import CLAIMS, against, load, rows
from validate.signoff.conditions import INEXACT, UNITS, UNKNOWN, Conditions, Metric, Stage, labels
from validate.signoff.measured import Measurement
from validate.signoff.published import Claim

# Specialized, default, ratio, and a figure of no path, as they were published.
FIGURES: dict[str, tuple[str | None, str | None, str | None, str | None]] = {
    "post-decode-dspark": ("842", "488", "1.73", None),
    "pr-decode-dspark": ("838", "489", None, None),
    "post-decode-batch-1": ("256.4", None, "1.88", None),
    "post-decode-batch-64": ("3606.1", None, "1.62", None),
    "pr-step-time-1": ("3.90", "7.38", "1.89", None),
    "pr-step-time-2": ("4.58", "8.79", "1.92", None),
    "pr-step-time-4": ("5.75", "10.33", "1.80", None),
    "pr-step-time-8": ("6.82", "12.19", "1.79", None),
    "pr-decode-against-output": (None, None, None, None),
    "pr-first-token": (None, None, None, None),
    "post-interactivity-agentx": ("403.2", "223.7", "1.8", None),
    "semianalysis-interactivity": (None, None, "1.68", "423"),
    "inferencex-interactivity": (None, None, None, "424"),
    "layer-kernels": ("13", "23", None, None),
    "layer-time": ("69", "130", None, None),
}
# What the sources do establish of each, written once more.
TP16 = {"hardware": "GB300", "gpus": 16, "tensor_parallel": 16, "serving": "vLLM"}
PLAIN = {"speculation": "none", "draft_tokens": "none", "synthetic_acceptance_length": "none"}
STEPS = (
    TP16
    | PLAIN
    | {"workload": "fixed lengths", "concurrency": "none", "input_tokens": 1, "output_tokens": 1024, "sampling": "greedy"}
    | {"kv_cache_dtype": "fp8", "state_dtype": "float32", "weights": "vendor"}
    | {"statistic": "median", "repeats": 3, "prompts_per_repeat": 4}
)
DSPARK = {"speculation": "dspark", "draft_tokens": 7}
SIX = TP16 | DSPARK | {"running_requests": 1, "synthetic_acceptance_length": 6}
LONG = DSPARK | {"hardware": "GB300", "serving": "vLLM", "synthetic_acceptance_length": 3.78}
LONG |= {"decode_context_parallel": "on", "input_tokens": "32K"}
ESTABLISHED: dict[str, dict[str, Any]] = {
    "post-decode-dspark": SIX | {"workload": "fixed lengths", "concurrency": "none", "input_tokens": 1, "output_tokens": 1000},
    "pr-decode-dspark": SIX,
    "post-decode-batch-1": TP16 | PLAIN | {"running_requests": 1},
    "post-decode-batch-64": TP16 | PLAIN | {"running_requests": 64},
    **{f"pr-step-time-{n}": STEPS | {"running_requests": n} for n in (1, 2, 4, 8)},
    "pr-decode-against-output": LONG,
    "pr-first-token": LONG,
    "post-interactivity-agentx": {
        "hardware": "GB300",
        "gpus": 16,
        "workload": "AgentX replay",
        "concurrency": 1,
        "statistic": "P90",
    },
    "semianalysis-interactivity": {"hardware": "GB300 NVL72", "serving": "Dynamo vLLM", "statistic": "P90"},
    "inferencex-interactivity": {"workload": "agentic", "weights": "FP4", "statistic": "P90"},
    "layer-kernels": {},
    "layer-time": {},
}
OF_NO_PATH = {
    "post-interactivity-agentx",
    "semianalysis-interactivity",
    "inferencex-interactivity",
    "layer-kernels",
    "layer-time",
}
# Another value of each condition than the step times have.
OTHERWISE: dict[str, st.SearchStrategy[Any]] = {
    "hardware": st.sampled_from(["H200", "B300", "emulated"]),
    "gpus": st.sampled_from([1, 8, 72]),
    "tensor_parallel": st.sampled_from([1, 8]),
    "decode_context_parallel": st.sampled_from([2, 8, 16]),
    "serving": st.just("Dynamo vLLM"),
    "workload": st.sampled_from(["AgentX replay", "various lengths"]),
    "running_requests": st.integers(2, 64),
    "concurrency": st.integers(1, 64),
    "input_tokens": st.integers(2, 10**6),
    "output_tokens": st.integers(1, 1023) | st.integers(1025, 10**6),
    "sampling": st.just("sampled"),
    "kv_cache_dtype": st.sampled_from(["auto", "bfloat16"]),
    "state_dtype": st.sampled_from(["auto", "bfloat16"]),
    "weights": st.sampled_from(["stand-in", "FP4"]),
    "statistic": st.just("P90"),
    "repeats": st.sampled_from([1, 2, 4]),
    "prompts_per_repeat": st.sampled_from([1, 5]),
}
CLAIM = {claim.id: claim for claim in load()}


def told(**conditions: Any) -> Claim:
    """The first step time, as if its source had also said whether decode context parallelism was on."""
    claim = CLAIM["pr-step-time-1"]
    known = claim.conditions.model_copy(update={"decode_context_parallel": 1} | conditions)
    return claim.model_copy(update={"conditions": known})


def measured(claim: Claim, **fields: Any) -> Measurement:
    values = {"specialized": 4.0, "default": 8.0, "conditions": claim.conditions, "emulated": False}
    return Measurement.model_validate({"record": "r", "metric": claim.metric, "stage": claim.stage} | values | fields)


def changed(claim: Claim, **conditions: Any) -> Measurement:
    return measured(claim, conditions=claim.conditions.model_copy(update=conditions))


def test_every_figure_is_the_published_one() -> None:
    def said(value: Decimal | None) -> str | None:
        return None if value is None else str(value)

    found = {c.id: tuple(map(said, (c.values.specialized, c.values.default, c.values.ratio, c.values.figure))) for c in load()}
    assert found == FIGURES
    assert {claim.id for claim in load() if not claim.isolates_path} == OF_NO_PATH
    assert {claim.id for claim in load() if claim.statement} == {"pr-decode-against-output", "pr-first-token"}


def test_of_every_claim_that_is_established_which_its_source_says() -> None:
    for claim in load():
        known = {name: value for name, value in claim.conditions.model_dump().items() if value != UNKNOWN}
        assert known == ESTABLISHED[claim.id], claim.id


def test_sources_metrics_and_stages() -> None:
    sources = {claim.id: (claim.source.name, str(claim.source.date)) for claim in load()}
    post, request = ("vLLM post", "2026-10-16"), ("vLLM pull request 61867", "2026-10-16")
    either = ("vLLM post or pull request 61867", "2026-10-16")
    of_others = {
        "semianalysis-interactivity": ("SemiAnalysis post", "2026-10-18"),
        "inferencex-interactivity": ("InferenceX dashboard", UNKNOWN),
    }
    by_name = {"post": post, "pr": request, "layer": either}
    assert sources == {name: of_others.get(name) or by_name[name.split("-")[0]] for name in FIGURES}
    stages = {claim.metric: claim.stage for claim in load()}
    assert stages == {
        Metric.DECODE_THROUGHPUT: Stage.DECODE_ONLY,
        Metric.STEP_TIME: Stage.DECODE_ONLY,
        Metric.TIME_TO_FIRST_TOKEN: Stage.PREFILL,
        Metric.INTERACTIVITY: Stage.WHOLE_REQUEST,
        Metric.LAYER_KERNELS: Stage.DECODE_ONLY,
        Metric.LAYER_TIME: Stage.DECODE_ONLY,
    }


def test_a_ratio_is_that_of_its_own_pair() -> None:
    both = [c for c in load() if c.values.ratio is not None and c.values.default is not None]
    assert len(both) == 6
    for claim in both:
        assert claim.speed_up is not None
        assert claim.values.ratio is not None
        # The pairs' own rounding moves the ratio by up to 0.0032 (488 by a half, 842 by a half); its last digit by 0.005 or 0.05.
        half = Decimal("0.5").scaleb(int(claim.values.ratio.as_tuple().exponent))
        assert abs(claim.speed_up - float(claim.values.ratio)) <= float(half) + 0.0033, claim.id
    assert CLAIM["semianalysis-interactivity"].speed_up is None
    assert CLAIM["post-decode-batch-1"].speed_up is None


def test_a_measurement_alike_in_all_stands_beside_the_claim() -> None:
    claim = told()
    (row,) = rows([claim], [measured(claim)])
    assert row.measured is not None
    assert (row.measured.specialized, row.measured.default, row.measured.speed_up, row.why_not) == (4.0, 8.0, 2.0, ())
    assert (row.published.specialized, row.published.default) == (Decimal("3.90"), Decimal("7.38"))


def test_every_condition_has_another_value_here() -> None:
    assert set(OTHERWISE) == set(Conditions.model_fields) - set(PLAIN)


@settings(deadline=None)
@given(st.data())
def test_one_condition_that_differs_parts_them_and_is_named(data: st.DataObject) -> None:
    name, label = data.draw(st.sampled_from([one for one in labels() if one[0] in OTHERWISE]))
    value = data.draw(OTHERWISE[name])
    claim = told()
    assert against(claim, measured(claim)) == []
    (said,) = against(claim, changed(claim, **{name: value}))
    assert said == f"{label} {getattr(claim.conditions, name)} against {value}"
    (row,) = rows([claim], [changed(claim, **{name: value})])
    assert row.measured is None
    assert said in row.why_not


def test_speculation_parts_them_and_each_of_its_conditions_is_named() -> None:
    claim = told(speculation="dspark", draft_tokens=7, synthetic_acceptance_length=6.0)
    assert against(claim, measured(claim)) == []
    assert against(claim, changed(claim, draft_tokens=3)) == ["draft tokens 7 against 3"]
    assert against(claim, changed(claim, synthetic_acceptance_length=3.78)) == ["synthetic acceptance length 6.0 against 3.78"]
    assert against(claim, changed(claim, synthetic_acceptance_length="none")) == ["synthetic acceptance length 6.0 against none"]
    assert against(told(), changed(told(), **DSPARK, synthetic_acceptance_length=6.0)) == [
        "speculation none against dspark",
        "draft tokens none against 7",
        "synthetic acceptance length none against 6.0",
    ]


@settings(deadline=None)
@given(st.sampled_from(labels()))
def test_what_is_not_established_matches_nothing(condition: tuple[str, str]) -> None:
    name, label = condition
    drafts = DSPARK | {"synthetic_acceptance_length": 6.0}
    base = told(**drafts)
    for unknown in {"decode_context_parallel": ("on", UNKNOWN), "input_tokens": ("32K", UNKNOWN)}.get(name, (UNKNOWN,)):
        claim = told(**drafts | {name: unknown})
        (by_the_source,) = against(claim, measured(base))
        assert by_the_source.startswith(label)
        assert "established by the source" in by_the_source
        assert len(against(claim, measured(claim))) == 1  # nor what is unknown on both sides
    (by_the_record,) = against(base, changed(base, **{name: UNKNOWN}))
    assert by_the_record == f"{label} {getattr(base.conditions, name)}, not established by the record"


def test_no_claim_leaves_a_condition_open_by_silence() -> None:
    """As published, each has conditions that nobody established, so that nothing yet stands beside any."""
    for claim in load():
        lacking = [label for name, label in labels() if getattr(claim.conditions, name) in (UNKNOWN, *INEXACT)]
        assert lacking
        said = against(claim, measured(claim))
        assert [line for label in lacking for line in said if line.startswith(label)]
    assert against(CLAIM["pr-step-time-8"], changed(told(), running_requests=8)) == [
        "decode context parallelism not established by the source, 1 measured"
    ]


@settings(deadline=None)
@given(st.sampled_from(Metric), st.sampled_from(Metric), st.sampled_from(Stage), st.sampled_from(Stage))
def test_another_metric_or_stage_never_matches(first: Metric, second: Metric, stage: Stage, other: Stage) -> None:
    claim = told().model_copy(update={"metric": first, "stage": stage, "unit": UNITS[first]})
    said = against(claim, measured(claim, metric=second, stage=other))
    assert said == [f"{first} against {second}"] * (first != second) + [f"{stage} against {other}"] * (stage != other)


def test_prefill_is_no_decode() -> None:
    claim = told()
    prefill = measured(claim, metric=Metric.PREFILL_THROUGHPUT, stage=Stage.PREFILL)
    assert against(claim, prefill) == ["step time against prefill throughput of a request", "decode only against prefill"]
    (row,) = rows([claim], [prefill])
    assert (row.measured, row.why_not) == (None, ("nothing measured: no step time, decode only",))


def test_a_stand_in_and_a_pair_of_more_than_the_path_match_nothing() -> None:
    claim = told()
    (said,) = against(claim, measured(claim, emulated=True))
    assert said.startswith("emulated: a stand-in ran")
    assert against(claim, measured(claim, objections=("attestation is INVALID: 0 of 9",))) == ["attestation is INVALID: 0 of 9"]
    mixed = claim.model_copy(update={"isolates_path": False, "reason": "16 GPUs and 8"})
    assert against(mixed, measured(claim)) == ["the published figure does not isolate the path: 16 GPUs and 8"]


def test_values_of_a_row_are_of_one_claim_and_one_record() -> None:
    claims = [told(), told().model_copy(update={"id": "other", "values": CLAIM["pr-step-time-8"].values})]
    two = [measured(told(), record="a"), measured(told(), record="b", specialized=5.0, default=6.0)]
    found = rows(claims, two)
    assert len(found) == 4
    published = {(c.values.specialized, c.values.default, c.values.ratio) for c in claims}
    assert {(r.published.specialized, r.published.default, r.published.ratio) for r in found} == published
    pairs = {(r.measured.record, r.measured.specialized, r.measured.default, r.measured.speed_up) for r in found if r.measured}
    assert pairs == {("a", 4.0, 8.0, 2.0), ("b", 5.0, 6.0, 1.2)}


def test_rows_name_the_nearest_measurement_and_keep_metrics_apart() -> None:
    near, far = changed(told(), running_requests=8), changed(told(), running_requests=4, gpus=8, tensor_parallel=8)
    found = rows(load(), [far, near.model_copy(update={"record": "near"})])
    assert [row.metric for row in found] == sorted((row.metric for row in found), key=list(Metric).index)
    assert {row.claim for row in found} == set(FIGURES)
    one = next(row for row in found if row.claim == "pr-step-time-1")
    assert one.why_not[0] == "nearest: near"
    assert one.why_not[1:] == ("decode context parallelism not established by the source, 1 measured", "batch 1 against 8")
    assert all(row.why_not and row.measured is None for row in found)


def edited(folder: Path, claim: str, **fields: Any) -> Path:
    content = yaml.safe_load(CLAIMS.read_text())
    one = next(one for one in content["claims"] if one["id"] == claim)
    for name, value in fields.items():
        one[name] = {**one[name], **value} if isinstance(value, dict) and isinstance(one.get(name), dict) else value
    (folder / "claims.yaml").write_text(yaml.safe_dump(content))
    return folder / "claims.yaml"


@pytest.mark.parametrize(
    ("claim", "fields", "said"),
    [
        ("post-decode-dspark", {"values": {"default": "489"}}, "the ratio of 842 and 489 is 1.722, not 1.73"),
        ("pr-step-time-2", {"values": {"default": "7.38"}}, "the ratio of 4.58 and 7.38"),
        ("pr-step-time-2", {"values": {"ratio": 1.92}}, "values.ratio: write the figure in quotes"),
        ("pr-step-time-2", {"speedup": "1.92"}, "speedup: Extra inputs are not permitted"),
        ("pr-step-time-2", {"unit": "tokens/s"}, "step time is in ms, not tokens/s"),
        ("pr-step-time-2", {"metric": "throughput"}, "metric: "),
        ("pr-step-time-2", {"conditions": {"running_requests": "2"}}, "conditions.running_requests"),
        ("pr-step-time-2", {"conditions": {"gpus": True}}, "conditions.gpus"),
        ("pr-step-time-2", {"conditions": {"draft_tokens": 7}}, "need speculation"),
        ("pr-step-time-2", {"conditions": {"kv": "fp8"}}, "conditions.kv: Extra inputs are not permitted"),
        ("pr-step-time-2", {"isolates_path": False}, "reason: wanted where isolates_path is false"),
        ("pr-step-time-2", {"compared": {"gpus": 8}}, "the two sides differ in more than the path"),
        ("pr-step-time-2", {"values": {"figure": "4"}}, "a figure is either of a path or of none"),
        ("pr-first-token", {"values": {"specialized": "1"}}, "values or a statement"),
        ("pr-step-time-2", {"id": "pr-step-time-1"}, "two are named pr-step-time-1"),
        ("pr-step-time-2", {"source": {"date": "last week"}}, "source.date"),
    ],
)
def test_a_mistake_in_the_file_is_one_clear_line(tmp_path: Path, claim: str, fields: dict[str, Any], said: str) -> None:
    path = edited(tmp_path, claim, **fields)
    with pytest.raises(InputError, match=f"^malformed claims {path}: ") as caught:
        load(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_condition_that_is_left_out_or_said_twice_is_refused(tmp_path: Path) -> None:
    content = CLAIMS.read_text()
    path = tmp_path / "claims.yaml"
    path.write_text(content.replace("      sampling: unknown\n", "", 1))
    with pytest.raises(InputError, match=r"claims\.0\.conditions\.sampling: Field required"):
        load(path)
    path.write_text(content.replace("      gpus: 16\n", "      gpus: 16\n      gpus: 8\n", 1))
    with pytest.raises(InputError, match="gpus is there twice"):
        load(path)
    path.write_text("claims: [")
    with pytest.raises(InputError, match="malformed claims"):
        load(path)
    with pytest.raises(InputError, match="cannot read"):
        load(tmp_path / "none.yaml")
