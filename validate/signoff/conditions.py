"""Under which conditions a figure was measured, published or here, and in what two sets of conditions differ."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, model_validator

from validate.records.model import Record

NO, UNKNOWN = "none", "unknown"  # there is no such thing; nothing establishes it
# Said, but no one value: on at an unknown size, about 32,000, one for each request.
INEXACT = {"on": "its size not established", "32K": "its exact number not established", "various": "not one value"}

Absent = Literal["none", "unknown"]
Count = Annotated[int, Field(ge=1)]
Text = Annotated[str, Field(min_length=1)]


class Metric(StrEnum):
    """What was measured. No two of them are ever held against each other."""

    DECODE_THROUGHPUT = "decode throughput"  # of all running requests together, without prefill
    REQUEST_DECODE_THROUGHPUT = "decode throughput of a request"
    STEP_TIME = "step time"  # between a request's tokens where each step gives it one, and no step has prefill
    INTER_TOKEN_LATENCY = "inter-token latency"  # between outputs, of several draft tokens or with others' prefill between them
    PREFILL_THROUGHPUT = "prefill throughput of a request"
    TIME_TO_FIRST_TOKEN = "time to first token"
    OUTPUT_THROUGHPUT = "output throughput"  # of all requests together, with their prefill
    REQUEST_LATENCY = "latency of a request"
    INTERACTIVITY = "interactivity"  # output tokens per second, as one user sees them
    LAYER_KERNELS = "kernels of a layer"
    LAYER_TIME = "time of a layer"


UNITS: dict[Metric, str] = {
    Metric.DECODE_THROUGHPUT: "tokens/s",
    Metric.REQUEST_DECODE_THROUGHPUT: "tokens/s",
    Metric.STEP_TIME: "ms",
    Metric.INTER_TOKEN_LATENCY: "ms",
    Metric.PREFILL_THROUGHPUT: "tokens/s",
    Metric.TIME_TO_FIRST_TOKEN: "ms",
    Metric.OUTPUT_THROUGHPUT: "tokens/s",
    Metric.REQUEST_LATENCY: "ms",
    Metric.INTERACTIVITY: "tokens/s/user",
    Metric.LAYER_KERNELS: "kernels",
    Metric.LAYER_TIME: "µs",
}
LOWER_IS_FASTER = ("ms", "µs", "kernels")


def lower_is_faster(metric: Metric) -> bool:
    """Whether the smaller of two figures is the better one."""
    return UNITS[metric] in LOWER_IS_FASTER


def speed_up(metric: Metric, specialized: float, default: float) -> float:
    """How many times faster the specialized path is, of the two values of one pair."""
    return default / specialized if lower_is_faster(metric) else specialized / default


class Stage(StrEnum):
    """The stage of serving that a figure covers. ``WHOLE_REQUEST``: decode with prefill, its own or others'."""

    DECODE_ONLY = "decode only"
    PREFILL = "prefill"
    WHOLE_REQUEST = "whole request"


class Conditions(Record):
    """Each is a value, ``none`` where there is no such thing, or ``unknown`` where nothing establishes it; none can be left out.

    ``hardware``: the GPU's name; ``emulated`` for a stand-in. ``decode_context_parallel``: its size, 1 without; ``on``: of a size
    that is not established. ``running_requests``: the batch. ``concurrency``: users of a replay. ``synthetic_acceptance_length``:
    tokens a verification step yields by decree, the bonus token included; ``none``: drafts are judged. ``input_tokens``,
    ``output_tokens``: of each request. ``statistic``: that the figure is of its distribution. ``repeats``: runs;
    ``prompts_per_repeat``: what each running place is asked in a run, one after another.
    """

    hardware: Text = Field(title="hardware")
    gpus: Count | Absent = Field(title="GPUs")
    tensor_parallel: Count | Absent = Field(title="tensor parallel size")
    decode_context_parallel: Count | Literal["on", "unknown"] = Field(title="decode context parallelism")
    serving: Text = Field(title="server")
    workload: Text = Field(title="workload")
    running_requests: Count | Literal["various", "unknown"] = Field(title="batch")
    concurrency: Count | Absent = Field(title="concurrency")
    speculation: Text = Field(title="speculation")
    draft_tokens: Count | Absent = Field(title="draft tokens")
    synthetic_acceptance_length: Annotated[float, Field(ge=1)] | Absent = Field(title="synthetic acceptance length")
    input_tokens: Count | Literal["32K", "various", "unknown"] = Field(title="input length")
    output_tokens: Count | Literal["various", "unknown"] = Field(title="output length")
    sampling: Literal["greedy", "sampled", "forced", "unknown"] = Field(title="sampling")
    kv_cache_dtype: Text = Field(title="KV cache dtype")
    state_dtype: Text = Field(title="state dtype")
    weights: Text = Field(title="weights")
    statistic: Literal["median", "P90", "unknown"] = Field(title="statistic")
    repeats: Count | Literal["unknown"] = Field(title="repeats")
    prompts_per_repeat: Count | Literal["unknown"] = Field(title="prompts a repeat")

    @model_validator(mode="after")
    def _drafts(self) -> "Conditions":
        if self.speculation == NO and not self.draft_tokens == self.synthetic_acceptance_length == NO:
            raise ValueError("draft tokens and a synthetic acceptance length need speculation")
        if self.speculation not in (NO, UNKNOWN) and self.draft_tokens == NO:
            raise ValueError("speculation without draft tokens")
        return self

    @property
    def words(self) -> str:
        """For people, what nothing establishes last."""
        said = [f"{label} {getattr(self, name)}" for name, label in labels() if getattr(self, name) != UNKNOWN]
        unknown = [label for name, label in labels() if getattr(self, name) == UNKNOWN]
        return "; ".join([*said, *([f"not established: {', '.join(unknown)}"] if unknown else [])])


def labels() -> list[tuple[str, str]]:
    """Each condition's field, and its name for people."""
    return [(name, field.title or name) for name, field in Conditions.model_fields.items()]


def differing(published: Conditions, measured: Conditions) -> Iterator[str]:
    """In words, every condition that is not established to be the same on both sides, the published value first."""
    for name, label in labels():
        ours, theirs = getattr(measured, name), getattr(published, name)
        if theirs == UNKNOWN:
            yield f"{label} not established by the source" + (f", {ours} measured" if ours != UNKNOWN else "")
        elif ours == UNKNOWN:
            yield f"{label} {theirs}, not established by the record"
        elif theirs in INEXACT:
            yield f"{label} {theirs}, {INEXACT[theirs]} by the source, against {ours}"
        elif theirs != ours:
            yield f"{label} {theirs} against {ours}"
