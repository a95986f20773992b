"""Outputs and arms made by hand."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.equivalence.toy import Plan as ToyPlan
from tests.equivalence.toy import manifest
from validate.equivalence.arm import LongOutputs
from validate.equivalence.compare.arms import Arms, Pair
from validate.records.arm import StepCount, Steps, Top, Transcript
from validate.records.arm_folder import Arm

ASKED = LongOutputs(
    outputs="long", fresh="canary-fresh", after="canary-after", reproducible=True, margin=0.35, length=0.15, padding=4
)
SCENES = ("canary-fresh", "long", "canary-after", "replayed-long")
NAMES = ("default", "default-again", "specialized", "float32")
ANSWER = "So.<|close|>think<|sep|><|open|>response<|sep|>It is 4.<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>"
NOISE = 0.03  # nats of a logit, of the default path against float32


def output(**fields: Any) -> Transcript:
    """One long output; all of it the model's own unless said otherwise."""
    tokens = tuple(fields.get("tokens", range(10, 60)))
    made: dict[str, Any] = {"scene": "long", "request": "0", "kind": "sampled", "prompt": (1, 2), "tokens": tokens}
    made |= {"own": ((0, len(tokens)),) if tokens else (), "texts": (ANSWER,), "finish": "stop 193"}
    made |= {"logprobs": (-0.5,) * len(tokens)}
    made |= {"top": (Top(ids=(1, 2), logprobs=(-0.5, -1.0)),) * len(tokens)}
    return Transcript.model_validate(made | fields)


def pair(specialized: Transcript, default: Transcript | None = None, again: Transcript | None = None) -> Pair:
    return Pair(default or output(), again or output(), specialized, None)


def forced(
    number: int, arm: str, length: int, noise: float, growth: float = 0.0, jump: tuple[int, float] | None = None
) -> Transcript:
    """Forced decoding of one request. The logprobs of an arm are the same model's, moved by noise of its own.

    ``growth``: how many times more at the end; ``jump``: from that position on so many times as much.
    """
    model = np.random.default_rng([1, number])
    moved = np.random.default_rng([2, number, NAMES.index(arm)])
    tokens, logprobs, tops = [], [], []
    for position in range(length):
        logits = model.normal(size=12) * 2
        size = noise * (1 + growth * position / length) * (jump[1] if jump and position >= jump[0] else 1.0)
        logits = logits + moved.normal(size=12) * (0.0 if arm == "default" else size)
        at = logits - np.log(np.exp(logits).sum())
        token = int(model.integers(12))
        best = np.argsort(-at)[:8]
        tokens.append(token)
        logprobs.append(float(at[token]))
        tops.append(Top(ids=tuple(map(int, best)), logprobs=tuple(float(at[t]) for t in best)))
    fields = {"scene": "replayed-long", "request": f"sampled-{number}", "kind": "forced", "prompt": (1, 2), "tokens": tokens}
    return Transcript.model_validate(fields | {"logprobs": logprobs, "top": tops, "finish": "length"})


def canary(scene: str, number: int, **fields: Any) -> Transcript:
    return output(scene=scene, request=f"{number}", kind="greedy", expects="It is 4.", finish="eos", **fields)


@cache
def arm(name: str, requests: int = 16, length: int = 400, **changed: Any) -> Arm:
    """``changed``: of ``forced`` for all its requests."""
    noise = {"default": 0.0, "default-again": 0.0, "specialized": NOISE, "float32": NOISE}[name]
    replayed = [forced(n, name, length, noise, **changed) for n in range(requests)]
    transcripts = replayed
    if name != "float32":
        draws = np.random.default_rng([3, NAMES.index(name)])
        long = []
        for n in range(requests):
            own = tuple(
                map(int, np.random.default_rng([4, n, NAMES.index(name)]).integers(10, 700, 400 + int(draws.integers(20))))
            )
            seed = n + 2**30 * (name == "default-again")
            long.append(output(request=f"sampled-{n}", tokens=own, seed=seed))
        fresh, after = ([canary(scene, n) for n in range(4)] for scene in (ASKED.fresh, ASKED.after))
        transcripts = [*fresh, *long, *after, *replayed]
    specialized = name == "specialized"
    count = StepCount(path="specialized" if specialized else "default", kind="decode", rows=16, q=1, reason="", count=400)
    scenes = SCENES if name != "float32" else SCENES[-1:]
    described = manifest(name, "latency_specialized" if specialized else "auto", ToyPlan()).model_copy(
        update={
            "scenes": scenes,
            "decode_only": ("long", "replayed-long"),
            "planned": len(transcripts),
            "rounds_to": "float32" if name == "float32" else "bfloat16",
            "arm_set": "long-cpu",
        }
    )
    steps = Steps(source="made up", by_scene=dict.fromkeys(scenes, (count,)), corrupted=0)
    return Arm(Path(f"/made-up/{name}"), described, tuple(transcripts), steps)


def arms(**changed: Any) -> Arms:
    """Sound ones; ``changed``: of the specialized arm."""
    return Arms(arm("default"), arm("default-again"), arm("specialized", **changed), arm("float32"))


def with_transcripts(of: Arm, change: Any) -> Arm:
    """``change`` takes each transcript and gives the one that takes its place."""
    return replace(of, transcripts=tuple(change(t) for t in of.transcripts))
