"""What the record of an arm holds: one configuration of a whole engine, and what it decoded.

A folder: ``manifest.json`` (``ArmManifest``), ``transcripts.jsonl`` (a ``Transcript`` a line, as requests end) and ``steps.json``
(``Steps``). Arms are recorded apart, each where its engine runs, and compared from their records.
"""

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import model_validator

from validate.records.model import Made, Record

Kind = Literal["greedy", "forced", "sampled"]
SPECIALIZED = "latency_specialized"  # the decode_backend of the specialized path
NANS = "VLLM_COMPUTE_NANS_IN_LOGITS"  # the variable by which the engine counts requests with NaN logits
DECODING = ("decode", "verify")  # the kinds of steps that it may serve


class Top(Record):
    """The engine's best tokens at one position, best first: ids and natural logarithms of their probabilities."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]


class Times(Record):
    """Seconds: from arrival to the first token, then between tokens. Never mixed into one figure."""

    first_token: float
    intervals: tuple[float, ...]


class Transcript(Record):
    """One request of one arm.

    ``scene`` names the batch composition that it was part of, ``request`` is unique within the scene. ``tokens`` are the decoded
    ids; in a forced request they are given, and ``logprobs`` is what the engine says of each. ``logprobs`` and ``top`` have one
    entry a token. ``cached`` counts prompt tokens taken from the prefix cache, ``drafted`` and ``accepted`` draft tokens.
    ``error`` says why there is no result; such a request is asked again on resumption.

    Of long outputs and canaries also: ``own``, [start, end) of the tokens that are the model's own, which is all of them but for
    turns that were dictated; ``texts``, those of ``own``, control tokens included; ``expects``, what the right answer holds.
    ValueError if these do not fit each other.
    """

    scene: str
    request: str
    kind: Kind
    prompt: tuple[int, ...]
    seed: int | None = None
    tokens: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    top: tuple[Top, ...] = ()
    finish: str | None = None
    cached: int = 0
    preemptions: int = 0
    drafted: int = 0
    accepted: int = 0
    times: Times | None = None
    own: tuple[tuple[int, int], ...] = ()
    texts: tuple[str, ...] = ()
    expects: str | None = None
    error: str | None = None

    @model_validator(mode="after")
    def _fits(self) -> "Transcript":
        if len(self.own) != len(self.texts):
            raise ValueError(f"{len(self.own)} stretches of its own, and {len(self.texts)} texts of them")
        if any(not 0 <= start <= end <= len(self.tokens) for start, end in self.own):
            raise ValueError(f"a stretch of its own lies beyond its {len(self.tokens)} tokens")
        return self

    @property
    def key(self) -> str:
        """What pairs the same request of two arms."""
        return f"{self.scene}/{self.request}"


class StepCount(Record):
    """Steps of the engine alike in all of this. ``rows`` is padded, ``q`` rows a request; ``reason``: why not specialized."""

    path: Literal["default", "specialized"]
    kind: Literal["decode", "verify", "prefill", "mixed"]
    rows: int
    q: int
    reason: str
    count: int


class Steps(Record):
    """Which steps ran on which path, as the engine itself counted them, by scene.

    ``source`` says how it is known. ``corrupted`` is the engine's count of requests with NaN logits, None where it has none;
    ``ranks_agree`` whether all ranks sampled the same tokens, None where there is one rank.
    """

    source: str
    by_scene: dict[str, tuple[StepCount, ...]]
    corrupted: int | None = None
    ranks_agree: bool | None = None

    def share(self, scenes: Iterable[str]) -> tuple[int, int]:
        """Decode and verify steps of the scenes that ran specialized, and all of them."""
        counted = [step for scene in scenes for step in self.by_scene.get(scene, ()) if step.kind in DECODING]
        return sum(step.count for step in counted if step.path == "specialized"), sum(step.count for step in counted)


class EngineManifest(Made):
    """Which engine an arm was, of whole engines or of evals.

    Two arms may be compared if they differ in ``name`` and ``decode_backend`` alone. ``engine``: its arguments without
    ``decode_backend``. ``model``: a digest of its files; ``serves``: which one servers said they have. At least the share
    ``minimum`` of decode and verify steps must have run specialized, where that is what the arm asks for. ``environment``: the
    VLLM_* variables that were set.
    """

    name: str
    decode_backend: str
    stand_in: bool
    engine: dict[str, Any]
    minimum: float = 0.95
    model: str
    planted: str | None = None
    served: tuple[str, ...] = ()
    serves: str | None = None
    environment: dict[str, str]


class ArmManifest(EngineManifest):
    """Of whole engines. ``arm_set``: as it was named. ``plan``: a digest of the scenes.

    ``minimum`` is asked of the scenes ``decode_only``. ``rounds_to``: the coarsest dtype to which both paths round between
    stages; ``layers`` and ``attn_res_block``: the model's. ``reproducible``: whether a request's numbers are to be the same to
    the bit in every batch of one size.
    """

    arm_set: str
    scenes: tuple[str, ...]
    decode_only: tuple[str, ...] = ()
    rounds_to: Literal["bfloat16", "float16", "float32"] = "bfloat16"
    layers: int = 93
    attn_res_block: int = 12
    reproducible: bool = False
    plan: str
    planned: int
