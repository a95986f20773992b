"""What a comparison of whole engines measured, and under which conditions, from its record alone."""

import json
from typing import Any

import pytest

from validate.equivalence import arm
from validate.equivalence.compare.comparison import Comparison
from validate.equivalence.compare.timings import FIGURES
from validate.equivalence.record import supposed
from validate.equivalence.scenes import build, digest
from validate.records.arm import ArmManifest
from validate.signoff.claims import load, rows
from validate.signoff.conditions import UNKNOWN, Metric, Stage
from validate.signoff.measured import Measurement, measurements

MACHINE = {"system": "Linux", "cpu": "c", "cores": 72, "memory_gib": 800.0, "gpus": ["NVIDIA GB300, 600.1, 10.3"] * 4}
CLAIMS = {claim.id: claim for claim in load()}


def manifest(name: str, backend: str, arm_set: str, **fields: Any) -> ArmManifest:
    arms = arm.load(arm_set)
    scenes = build(arms.scenes, supposed(arms), arms.prompt_source())
    made = {
        "name": name,
        "decode_backend": backend,
        "stand_in": arms.stand_in,
        "engine": arms.engine | {"model": arms.model, "block_size": 16},
        "model": f"name {arms.model}",
        "environment": {},
        "versions": {"vllm": "0.33.0"},
        "source": "s",
        "commit": None,
        "dirty": None,
        "machine": MACHINE,
        "start": "2026-11-30T00:00:00Z",
        "arm_set": arm_set,
        "scenes": [scene.name for scene in scenes],
        "decode_only": [scene.name for scene in scenes if scene.decode_only],
        "plan": digest(scenes),
        "planned": 1,
    }
    return ArmManifest.model_validate(made | fields)


def compared(arm_set: str = "step-times", attestation: str = "PASS", only: str = "", **fields: Any) -> Comparison:
    """Scene ``n`` takes 4 + n of each unit on the specialized path, twice that on the default one."""
    backends = {"default": "auto", "default-again": "auto", "specialized": "latency_specialized"}
    arms = [manifest(name, backend, arm_set, **fields) for name, backend in backends.items()]
    timings = [
        {"scene": scene, "figure": figure, "requests": 4, "default": 8.0 + 2 * n, "again": 8.0, "specialized": 4.0 + n}
        | {"ratio": 0.5, "low": 0.5, "high": 0.5}
        for n, scene in enumerate(scene for scene in arms[0].scenes if only in scene)
        for figure in FIGURES
    ]
    checks = [{"name": "attestation", "verdict": attestation, "detail": "9 of 9 steps", "findings": []}]
    made = {"verdict": "PASS", "exit_code": 0, "folders": ["a", "b", "c"], "arms": [one.model_dump() for one in arms]}
    return Comparison.model_validate_json(json.dumps(made | {"checks": checks, "timings": timings}))


def only(found: tuple[Measurement, ...], metric: Metric, scene: str) -> Measurement:
    (one,) = [m for m in found if m.metric is metric and f" {scene}" in f" {m.record.split(': ')[1]}"]
    return one


def test_step_times_are_measured_as_they_were_published_but_for_what_the_source_leaves_open() -> None:
    found = measurements(compared(), "run")
    for n in (1, 2, 4, 8):
        one = only(found, Metric.STEP_TIME, f"running-{n}-run1")
        assert one.record == f"run: running-{n}-run1, running-{n}-run2, running-{n}-run3"
        assert (one.stage, one.emulated, one.objections, one.speed_up) == (Stage.DECODE_ONLY, False, (), 2.0)
        assert one.specialized == 4.0 + 3 * (n - 1) + 1  # the middle run
        published = CLAIMS[f"pr-step-time-{n}"].conditions
        assert one.conditions == published.model_copy(update={"decode_context_parallel": 1})
    for row in rows(load(), found):
        if row.metric is Metric.STEP_TIME:
            (_, why) = row.why_not
            assert why == "decode context parallelism not established by the source, 1 measured"


def test_a_run_that_is_missing_leaves_no_measurement() -> None:
    assert measurements(compared(only="run1"), "run") == ()


def test_one_request_alone_is_the_whole_batch_and_more_are_not() -> None:
    found = measurements(compared(), "run")
    assert [m.record for m in found if m.metric is Metric.DECODE_THROUGHPUT] == [
        "run: running-1-run1, running-1-run2, running-1-run3"
    ]
    assert only(found, Metric.DECODE_THROUGHPUT, "running-1-run1").stage is Stage.DECODE_ONLY


def test_prefill_is_its_own_stage_and_decode_with_others_prefill_no_step_time() -> None:
    found = measurements(compared("gb300-tp16"), "run")
    of_prefill = {Metric.TIME_TO_FIRST_TOKEN, Metric.PREFILL_THROUGHPUT}
    assert {m.metric for m in found if m.stage is Stage.PREFILL} == of_prefill
    mixed = only(found, Metric.INTER_TOKEN_LATENCY, "arrivals")
    assert mixed.stage is Stage.WHOLE_REQUEST
    assert (mixed.conditions.running_requests, mixed.conditions.input_tokens) == ("various", "various")
    step = only(found, Metric.STEP_TIME, "decode-64")
    assert (step.conditions.running_requests, step.conditions.output_tokens, step.conditions.repeats) == (64, 256, 1)
    assert step.conditions.workload == "various lengths"
    assert only(found, Metric.INTER_TOKEN_LATENCY, "preempted").conditions.running_requests == "various"
    assert only(found, Metric.INTER_TOKEN_LATENCY, "stops").conditions.output_tokens == "various"
    assert only(found, Metric.STEP_TIME, "forced-decode-2").conditions.sampling == "forced"


def test_drafts() -> None:
    (judged,) = {m.conditions.synthetic_acceptance_length for m in measurements(compared("gb300-tp16-dspark"), "run")}
    assert judged == "none"
    engine = arm.load("gb300-tp16-dspark").engine | {"block_size": 16}
    synthetic = {"rejection_sample_method": "synthetic", "synthetic_acceptance_length": 6.0}
    engine["speculative_config"] = engine["speculative_config"] | synthetic
    found = measurements(compared("gb300-tp16-dspark", engine=engine), "run")
    one = only(found, Metric.INTER_TOKEN_LATENCY, "decode-1").conditions
    assert (one.speculation, one.draft_tokens, one.synthetic_acceptance_length) == ("dspark", 7, 6.0)
    assert all(m.metric is not Metric.STEP_TIME for m in found)  # an output has several tokens


def test_what_is_not_known_of_the_arms_is_unknown() -> None:
    another = measurements(compared(plan="another"), "run")
    assert {m.conditions.input_tokens for m in another} == {UNKNOWN}
    assert {m.conditions.running_requests for m in another} == {UNKNOWN}
    nowhere = measurements(compared(machine=MACHINE | {"gpus": []}, served=["http://host:8000"]), "run")
    assert {m.conditions.hardware for m in nowhere} == {UNKNOWN}
    engine = arm.load("step-times").engine | {"model": "/models/k3", "block_size": 16}
    assert {m.conditions.weights for m in measurements(compared(engine=engine), "run")} == {UNKNOWN}


def test_decode_context_parallelism_and_the_cache_are_the_engines() -> None:
    engine = arm.load("step-times").engine | {"model": "moonshotai/Kimi-K3", "block_size": 16}
    engine |= {"decode_context_parallel_size": 16, "kv_cache_dtype": "fp8_e4m3", "tensor_parallel_size": 8}
    one = measurements(compared(engine=engine), "run")[0].conditions
    assert (one.decode_context_parallel, one.kv_cache_dtype, one.tensor_parallel, one.gpus) == (16, "fp8", 8, 8)
    assert (one.weights, one.hardware) == ("vendor", "GB300")


@pytest.mark.parametrize("verdict", ["INVALID", "FAIL"])
def test_a_path_that_is_not_attested_is_objected_to(verdict: str) -> None:
    found = measurements(compared(attestation=verdict), "run")
    assert found
    assert {m.objections for m in found} == {(f"attestation is {verdict}: 9 of 9 steps",)}


def test_arms_that_differ_in_more_than_the_path_are_objected_to() -> None:
    comparison = compared()
    older = comparison.arms[0].model_copy(update={"versions": {"vllm": "0.32.0"}})
    found = measurements(comparison.model_copy(update={"arms": (older, *comparison.arms[1:])}), "run")
    said = "the arms differ in more than the path: versions.vllm: default has 0.32.0, specialized has 0.33.0"
    assert {m.objections for m in found} == {(said,)}


def test_a_stand_in_is_emulated_and_stands_beside_nothing() -> None:
    found = measurements(compared(stand_in=True), "run")
    assert {(m.emulated, m.conditions.hardware, m.conditions.weights) for m in found} == {(True, "emulated", "stand-in")}
    for row in rows(load(), found):
        assert row.measured is None
        if row.metric in {m.metric for m in found}:
            assert "emulated: a stand-in ran, not vLLM's kernels on GB300; its times are of no GPU" in row.why_not
