"""What a recorded comparison of whole engines measured, with its conditions: what may be held against a published figure."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

from pydantic import Field, ValidationError

from validate.equivalence import arm
from validate.equivalence.compare.comparability import MAY_DIFFER, engines_apart
from validate.equivalence.compare.comparison import Comparison
from validate.equivalence.compare.timings import Timing
from validate.equivalence.scenes import Facts, Scene, StepTimes, build, digest
from validate.errors import InputError
from validate.preflight.deployment import Deployment, engine
from validate.records.arm import ArmManifest
from validate.records.model import Record
from validate.signoff.conditions import NO, UNKNOWN, Conditions, Metric, Stage, speed_up
from validate.verdict import Verdict

VENDOR = "moonshotai/Kimi-K3"
FIGURES = {
    "time to first token, ms": Metric.TIME_TO_FIRST_TOKEN,
    "inter-token latency, ms": Metric.INTER_TOKEN_LATENCY,
    "prefill, tokens/s a request": Metric.PREFILL_THROUGHPUT,
    "decode, tokens/s a request": Metric.REQUEST_DECODE_THROUGHPUT,
}
OF_PREFILL = (Metric.TIME_TO_FIRST_TOKEN, Metric.PREFILL_THROUGHPUT)


class Measurement(Record):
    """One metric of both paths, from one comparison. ``specialized`` and ``default`` are in the metric's unit (``UNITS``).

    ``record``: the comparison and the scenes. ``emulated``: a stand-in ran, which nothing published is of. ``objections``: why
    the pair does not isolate the path.
    """

    record: str
    metric: Metric
    stage: Stage
    specialized: float = Field(gt=0)
    default: float = Field(gt=0)
    conditions: Conditions
    emulated: bool
    objections: tuple[str, ...] = ()

    @property
    def speed_up(self) -> float:
        """How many times faster the specialized path is."""
        return speed_up(self.metric, self.specialized, self.default)


@dataclass(frozen=True)
class _Group:
    """Scenes that are runs of one thing, and the first of them; None where it is not known."""

    scenes: tuple[str, ...]
    first: Scene | None

    def shape(self, most: int) -> dict[str, Any]:
        """What the requests say of the conditions, where ``most`` of them run at once."""
        if self.first is None:
            return {}
        requests = self.first.requests
        waves = [sum(r.wave == wave for r in requests) for wave in sorted({r.wave for r in requests})]
        inputs, kinds = {len(r.prompt) for r in requests}, {r.kind for r in requests}
        to_the_end = all(r.ignore_eos and not (r.stop_ids or r.stop_strings) for r in requests)
        outputs = {r.tokens if to_the_end else None for r in requests}
        # Requests that arrive, end, wait or are preempted while others decode leave no one batch.
        disturbed = any(r.after for r in requests) or self.first.preempt_after is not None or max(waves) > most
        output = outputs.pop() if len(outputs) == 1 else None
        return {
            "workload": "fixed lengths" if len(inputs) == 1 and output else "various lengths",
            "running_requests": waves[0] if len(set(waves)) == 1 and output and not disturbed else "various",
            "input_tokens": inputs.pop() if len(inputs) == 1 else "various",
            "output_tokens": output or "various",
            "sampling": kinds.pop() if len(kinds) == 1 else UNKNOWN,
            "repeats": len(self.scenes),
            "prompts_per_repeat": len(waves),
        }


def measurements(comparison: Comparison, name: str) -> tuple[Measurement, ...]:
    """Of each scene with times; runs of the step times' protocol are one measurement, the median of the runs' medians.

    ``name``: of the comparison, for people. Lengths and batches are those of the arm set by which the arms were recorded; they
    are unknown where it cannot be found, or is another one by now. The hardware is that of the machine which recorded.
    """
    if len(comparison.arms) < 3:
        return ()
    specialized = comparison.arms[2]
    objections = tuple(_objections(comparison))
    found: list[Measurement] = []
    for group in _groups(specialized):
        for figure in FIGURES:
            timings = [t for t in comparison.timings if t.scene in group.scenes and t.figure == figure]
            if len(timings) == len(group.scenes):
                found += _measured(group, figure, timings, specialized, f"{name}: {', '.join(group.scenes)}", objections)
    return tuple(found)


def _measured(
    group: _Group, figure: str, timings: list[Timing], engine: ArmManifest, record: str, objections: tuple[str, ...]
) -> Iterator[Measurement]:
    conditions = conditions_of(engine, group.shape(engine.engine.get("max_num_seqs", 0)))
    values = {"specialized": median(t.specialized for t in timings), "default": median(t.default for t in timings)}
    if min(values.values()) <= 0:
        return
    metric = FIGURES[figure]
    alone = set(group.scenes) <= set(engine.decode_only)
    stage = Stage.PREFILL if metric in OF_PREFILL else Stage.DECODE_ONLY if alone else Stage.WHOLE_REQUEST
    metrics = [metric]
    if metric is Metric.INTER_TOKEN_LATENCY and alone and conditions.speculation == NO:
        metrics = [Metric.STEP_TIME]
    if metric is Metric.REQUEST_DECODE_THROUGHPUT and alone and conditions.running_requests == 1:
        metrics.append(Metric.DECODE_THROUGHPUT)  # all running requests are this one
    common = {"record": record, "stage": stage, "conditions": conditions, "emulated": engine.stand_in, "objections": objections}
    yield from (Measurement.model_validate({**common, **values, "metric": metric}) for metric in metrics)


def conditions_of(manifest: ArmManifest, shape: dict[str, Any]) -> Conditions:
    """Of an arm, ``shape`` being what its requests say. InputError for engine arguments of the wrong kind."""
    e = engine(manifest.engine)
    speculation = Deployment(e, {}).speculation
    asked = manifest.engine.get("model")
    vendor = asked == VENDOR and not (e.quantization or e.quantization_config or e.hf_overrides)
    said = {
        "hardware": _hardware(manifest),
        "gpus": e.tensor_parallel_size * e.pipeline_parallel_size * e.data_parallel_size,
        "tensor_parallel": e.tensor_parallel_size,
        "decode_context_parallel": e.decode_context_parallel_size,
        "serving": "vLLM",
        "concurrency": NO,
        "speculation": NO,
        "draft_tokens": NO,
        "synthetic_acceptance_length": NO,
        "kv_cache_dtype": "fp8" if e.kv_cache_dtype == "fp8_e4m3" else e.kv_cache_dtype,  # vLLM's two names of one dtype
        "state_dtype": e.mamba_ssm_cache_dtype,
        "weights": "stand-in" if manifest.stand_in else "vendor" if vendor else UNKNOWN,
        "statistic": "median",
    }
    if speculation is not None:
        judged = speculation.get("rejection_sample_method", "standard") != "synthetic"
        said["speculation"] = str(speculation.get("method") or UNKNOWN)
        said["draft_tokens"] = speculation.get("num_speculative_tokens", UNKNOWN)
        said["synthetic_acceptance_length"] = NO if judged else speculation.get("synthetic_acceptance_length", UNKNOWN)
    try:
        return Conditions.model_validate(dict.fromkeys(Conditions.model_fields, UNKNOWN) | said | shape)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"conditions of {manifest.name}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def _hardware(manifest: ArmManifest) -> str:
    """The GPUs' name without its maker; what a server without GPUs beside its recorder runs on is not known."""
    if manifest.stand_in:
        return "emulated"
    named = {gpu.split(",")[0].removeprefix("NVIDIA ").strip() for gpu in manifest.machine.gpus}
    return named.pop() if len(named) == 1 else UNKNOWN


def _objections(comparison: Comparison) -> Iterator[str]:
    default, specialized = comparison.arms[0], comparison.arms[2]
    for check in comparison.checks:
        if check.verdict is Verdict.INVALID or (check.name == "attestation" and check.verdict is not Verdict.PASS):
            yield f"{check.name} is {check.verdict}: {check.detail}"
    if not any(check.name == "attestation" for check in comparison.checks):
        yield "attestation: nothing says which steps ran specialized"
    yield from (f"the arms differ in more than the path: {line}" for line in engines_apart(default, specialized, MAY_DIFFER))


def _groups(manifest: ArmManifest) -> Iterator[_Group]:
    """The scenes of an arm: the runs of step times together, others alone."""
    scenes = {scene.name: scene for scene in _scenes(manifest)}
    runs: dict[str, tuple[str, ...]] = {}
    if scenes:
        for one in arm.load(manifest.arm_set).scenes:
            if isinstance(one, StepTimes):
                for running in one.running:
                    names = tuple(f"{one.name}-{running}-run{run}" for run in range(1, one.runs + 1))
                    runs |= dict.fromkeys(names, names)
    for group in dict.fromkeys(runs.get(name, (name,)) for name in manifest.scenes):
        yield _Group(group, scenes.get(group[0]))


def _scenes(manifest: ArmManifest) -> list[Scene]:
    """Those that were recorded; none where the arm set that made them is not there, or makes others."""
    given = manifest.engine
    try:
        arms = arm.load(manifest.arm_set)
        facts = Facts(given["block_size"], given["max_num_batched_tokens"], given["max_model_len"], given["max_num_seqs"])
        every = build(arms.scenes, facts, arms.prompt_source())
    except (InputError, ImportError, KeyError):
        return []
    own = [scene for scene in every if scene.name in manifest.scenes]
    return own if digest(own) == manifest.plan else []
