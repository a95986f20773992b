"""A toy engine: a random recurrent model whose logits carry noise of a given size, and faults of the kinds that engines have.

Its state is a decaying sum of what was read, as a linear-attention layer's: a wrong state shows for some tokens and fades. The
noise of one request depends on itself from position to position and is larger in some requests than in others.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validate.equivalence.compare.arms import Arms
from validate.records.arm import ArmManifest, Kind, StepCount, Steps, Times, Top, Transcript
from validate.records.arm_folder import Arm
from validate.records.model import Machine

Array = NDArray[np.float64]
VOCABULARY, WIDTH, BEST, BLOCK = 96, 16, 8, 16
SCENES = ("alone", "eight", "preempted", "prefix", "recycled")
NAMES = ("default", "default-again", "specialized", "float32")
KEEP = 0.8  # of the state from token to token


@dataclass
class Run:
    """One request under way: what a fault may change.

    ``context`` counts the tokens before the one to be decoded; ``read`` is what the last step wrote to the state.
    """

    scene: str
    number: int
    position: int
    context: int
    state: Array
    read: Array
    logits: Array


Fault = Callable[[Run, np.random.Generator], None]


@dataclass(frozen=True)
class Plan:
    """What the arms are asked: per scene so many greedy and as many forced requests."""

    seed: int = 0
    requests: int = 8
    tokens: int = 48
    scenes: tuple[str, ...] = SCENES


class Toy:
    """The model and the requests of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        generator = np.random.default_rng([1, plan.seed])
        self._embed = generator.normal(size=(VOCABULARY, WIDTH))
        self._head = generator.normal(size=(WIDTH, VOCABULARY)) * 0.9 / np.sqrt(WIDTH)
        self._last = generator.normal(size=(VOCABULARY, VOCABULARY)) * 1.6
        self._asked = [
            (scene, kind, number, tuple(map(int, generator.integers(VOCABULARY, size=generator.integers(4, 40)))))
            for scene in plan.scenes
            for number in range(plan.requests)
            for kind in ("greedy", "forced")
        ]
        self._forced = {
            (scene, number): self._decode(scene, "sampled", number, prompt, 0.0, generator, None, ()).tokens
            for scene, kind, number, prompt in self._asked
            if kind == "forced"
        }

    def transcripts(self, seed: int, noise: float, fault: Fault | None = None, growth: float = 0.0) -> tuple[Transcript, ...]:
        """One arm's answers. ``noise``: rms of each logit, nats; ``growth``: how many times that more at the last position."""
        found = []
        for index, (scene, kind, number, prompt) in enumerate(self._asked):
            generator = np.random.default_rng([2, self.plan.seed, seed, index])
            given = self._forced[scene, number] if kind == "forced" else ()
            found.append(self._decode(scene, kind, number, prompt, noise, generator, fault, given, growth))
        return tuple(found)

    def _decode(
        self,
        scene: str,
        kind: Kind,
        number: int,
        prompt: tuple[int, ...],
        noise: float,
        generator: np.random.Generator,
        fault: Fault | None,
        given: tuple[int, ...],
        growth: float = 0.0,
    ) -> Transcript:
        state = np.zeros(WIDTH)
        for token in prompt:
            state = KEEP * state + self._embed[token]
        own, drift = noise * np.exp(generator.normal() * 0.3), generator.normal(size=VOCABULARY)
        faulty = np.random.default_rng([3, self.plan.seed, number])
        last, tokens, logprobs, tops = prompt[-1], [], [], []
        for position in range(self.plan.tokens):
            logits = state @ self._head * 2 + self._last[last]
            drift = 0.8 * drift + 0.6 * generator.normal(size=VOCABULARY)
            logits = logits + own * (1 + growth * position / self.plan.tokens) * drift
            run = Run(scene, number, position, len(prompt) + position, state, self._embed[last], logits)
            if fault is not None:
                fault(run, faulty)
                if run.state is not state:  # the fault is in the state: it decides this token, too
                    run.logits = logits + (run.state - state) @ self._head * 2
            at = run.logits - run.logits.max()
            at = at - np.log(np.exp(at).sum())
            best = np.argsort(-at, kind="stable")[:BEST]
            if kind == "forced":
                token = given[position]
            elif kind == "sampled":
                token = int(generator.choice(VOCABULARY, p=np.exp(at)))
            else:
                token = int(best[0])
            tokens.append(token)
            logprobs.append(float(np.float32(at[token])))
            tops.append(Top(ids=tuple(map(int, best)), logprobs=tuple(float(np.float32(at[t])) for t in best)))
            state, last = KEEP * run.state + self._embed[token], token
        return Transcript(
            scene=scene,
            request=f"{kind}-{number}",
            kind=kind,
            prompt=prompt,
            tokens=tuple(tokens),
            logprobs=tuple(logprobs),
            top=tuple(tops),
            finish="length",
            times=Times(first_token=0.05, intervals=(0.004 + 0.001 * generator.random(),) * (len(tokens) - 1)),
        )


def manifest(name: str, backend: str, plan: Plan, rounds_to: str = "bfloat16") -> ArmManifest:
    return ArmManifest.model_validate(
        {
            "name": name,
            "arm_set": "toy",
            "decode_backend": backend,
            "stand_in": True,
            "engine": {"block_size": BLOCK, "dtype": rounds_to},
            "scenes": plan.scenes,
            "decode_only": plan.scenes[:1],
            "rounds_to": rounds_to,
            "layers": 4,
            "attn_res_block": 2,
            "model": "0" * 16,
            "plan": "1" * 16,
            "environment": {},
            "versions": {"vllm": "none"},
            "source": "2" * 16,
            "commit": None,
            "dirty": None,
            "machine": Machine(system="toy", cpu="toy", cores=1, memory_gib=1.0),
            "planned": 2 * plan.requests * len(plan.scenes),
            "start": "2026-01-01T00:00:00Z",
            "end": "2026-01-01T00:01:00Z",
        }
    )


def steps(plan: Plan, specialized: bool) -> Steps:
    kinds = [("specialized", "", 97), ("default", "partial drafts", 3)] if specialized else [("default", "", 100)]
    counted = tuple(StepCount(path=path, kind="decode", rows=8, q=1, reason=why, count=n) for path, why, n in kinds)
    return Steps(source="toy", by_scene=dict.fromkeys(plan.scenes, counted), corrupted=0)


@lru_cache(1)
def toy(plan: Plan) -> Toy:
    """The same model and requests for the same plan."""
    return Toy(plan)


@lru_cache(8)
def arm(
    plan: Plan, name: str, noise: float, *, fault: Fault | None = None, growth: float = 0.0, rounds_to: str = "bfloat16"
) -> Arm:
    """One arm: its noise is drawn by its name."""
    specialized = name == "specialized"
    described = manifest(name, "latency_specialized" if specialized else "auto", plan, rounds_to)
    answers = toy(plan).transcripts(NAMES.index(name), noise, fault, growth)
    return Arm(Path(f"/toy/{name}"), described, answers, steps(plan, specialized))


def arms(
    plan: Plan | None = None, noise: float = 0.02, multiple: float = 2.0, *, fault: Fault | None = None, **fields: Any
) -> Arms:
    """Three arms; the specialized one has ``multiple`` times the noise and the fault."""
    plan = plan or Plan()
    default, again = (arm(plan, name, noise, **fields) for name in NAMES[:2])
    return Arms(default, again, arm(plan, NAMES[2], noise * multiple, fault=fault, **fields))


def quiet_arms(multiple: float, *, noise: float = 0.05, plan: Plan | None = None, fault: Fault | None = None) -> Arms:
    """Four arms: batches change nothing in the default path, whose error is ``noise``; the float32 arm has none to speak of."""
    plan = plan or Plan()
    default = arm(plan, "default", noise)
    again = replace(default, folder=Path("/toy/again"), manifest=manifest("default-again", "auto", plan))
    forced = tuple(t for t in arm(plan, "float32", 1e-7).transcripts if t.kind == "forced")
    float32 = manifest("float32", "auto", plan, "float32").model_copy(update={"planned": len(forced)})
    specialized = arm(plan, "specialized", noise * multiple, fault=fault)
    return Arms(default, again, specialized, Arm(Path("/toy/float32"), float32, forced, steps(plan, False)))
