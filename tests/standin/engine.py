"""vLLM's engine with the stand-in on a mixture of requests, in a process of its own.

python -m tests.standin.engine WANTED.json FOUND.json      WANTED: ``Wanted`` by fields; FOUND: ``Found`` by fields
"""

import dataclasses
import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from validate.equivalence.arm import load

SHARED = 300  # tokens that two prompts begin with: two blocks and more


@dataclass
class Wanted:
    """``fault``: planted, see ``plant``. ``preempted`` names steps before which all running requests are preempted."""

    engine: dict[str, Any] = field(default_factory=dict)
    backend: str = "auto"
    preempted: tuple[int, ...] = ()
    fault: str | None = None


@dataclass
class Answer:
    prompt: list[int]
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)  # drafts, by verify step
    drafted: list[int] = field(default_factory=list)
    cached: int = 0
    preemptions: int = 0
    finish: str = ""


@dataclass
class Found:
    answers: dict[str, Answer]
    steps: list[dict[str, Any]]
    cache_mode: str


@dataclass
class Asked:
    """``arrives``: before which step. ``tokens``: at most; ``stops``: ids."""

    name: str
    prompt: list[int]
    tokens: int
    arrives: int = 0
    stops: tuple[int, ...] = ()


def asked() -> list[Asked]:
    """Prompts shorter than a verify step, on both sides of a chunk of 512 tokens, with a shared beginning; arrivals; endings."""
    prompts = load("cpu-fp32").prompt_source()
    made = [Asked(f"short-{n}", list(prompts(f"short-{n}", n)), 30 + n) for n in range(1, 10)]
    made += [Asked(f"chunk-{n}", list(prompts(f"chunk-{n}", 512 + n)), 20, arrives=3 + 2 * n) for n in (-1, 0, 1, 2, 3, 4, 5)]
    shared = list(prompts("shared", SHARED))
    made += [Asked(f"shared-{n}", shared + list(prompts(f"shared-{n}", 5 + n)), 30, arrives=20 * n) for n in range(3)]
    made += [Asked(f"blocks-{n}", list(prompts(f"blocks-{n}", 100 + 9 * n)), 170, arrives=n) for n in range(4)]
    made += [Asked(f"ends-{n}", list(prompts(f"ends-{n}", 40)), n, arrives=5 + n) for n in range(1, 9)]
    # When slots of others are used again, and the rest of the batch verifies drafts.
    made += [Asked(f"one-{n}", list(prompts(f"one-{n}", 1)), 12, arrives=45 + n) for n in range(6)]
    # Where a draft is one of so many tokens, those accepted after it are cut off.
    for n in range(32):
        prompt, stops = list(prompts(f"stops-{n}", 40 + n)), tuple(range(n % 8, 768, 8))
        made.append(Asked(f"stops-{n}", prompt, 60, arrives=32 + n, stops=stops))
    return sorted(made, key=lambda one: one.arrives)


def plant(fault: str) -> None:
    """The faults whose finding is tested."""
    from vllm.forward_context import get_forward_context

    from validate.standin import metadata, vllm_model

    attend, build = vllm_model.Kda.attend, metadata.StepBuilder.build
    if fault == "one cache group's slots for all layers":

        def first(self: Any, forms: Any, own: Any, x: Any, step: Any) -> Any:
            given = get_forward_context().attn_metadata
            return attend(self, forms, own, x, given and given["layers.0.attention"])

        vllm_model.Kda.attend = first  # type: ignore[method-assign]
        return
    changes = {
        "all drafts count as accepted": lambda step: {"accepted": step.counts.clamp(max=step.slots.shape[1])},
        "every step starts from the first slot": lambda step: {"accepted": step.accepted * 0 + 1},
        "short prompts count as drafts": lambda step: {"decodes": step.counts <= step.slots.shape[1]},
    }

    def changed(*given: Any, **named: Any) -> Any:
        step = build(*given, **named)
        return dataclasses.replace(step, **changes[fault](step))

    metadata.StepBuilder.build = changed  # type: ignore[method-assign]


def ran(wanted: Wanted) -> Found:
    arms = load("cpu-fp32")
    os.environ.update(arms.environment)
    import vllm

    if wanted.fault:
        plant(wanted.fault)
    config = {"decode_backend": wanted.backend}
    given = arms.engine | {"model": arms.model, "additional_config": config, "disable_log_stats": False} | wanted.engine
    engine = vllm.LLMEngine.from_engine_args(vllm.EngineArgs(**given))
    answers, waiting, step = {}, asked(), 0
    core = engine.engine_core.engine_core
    model = core.model_executor.driver_worker.worker.model_runner.get_model()
    model.reset_step_counts()
    inside = {}
    while waiting or engine.has_unfinished_requests():
        while waiting and waiting[0].arrives <= step:
            one = waiting.pop(0)
            answers[one.name] = Answer(one.prompt)
            how = vllm.SamplingParams(
                temperature=0,
                max_tokens=one.tokens,
                logprobs=1,
                ignore_eos=True,
                detokenize=False,
                stop_token_ids=list(one.stops),
            )
            inside[one.name] = engine.add_request(one.name, {"prompt_token_ids": one.prompt}, how)
        if step in wanted.preempted:
            engine.reset_prefix_cache(reset_running_requests=True)
        outputs = engine.step()
        for name, internal in inside.items():
            if request := core.scheduler.requests.get(internal):
                answers[name].preemptions = request.num_preemptions
        for output in outputs:
            answer = answers[output.request_id]
            (one,) = output.outputs
            answer.cached = output.num_cached_tokens or 0
            if output.finished:
                answer.finish, answer.tokens = str(one.finish_reason), list(one.token_ids)
                answer.logprobs = [entry[token].logprob for token, entry in zip(one.token_ids, one.logprobs, strict=True)]
                if drafts := getattr(one, "spec_decode_metrics", None):
                    answer.accepted, answer.drafted = drafts.per_step_accepted, drafts.per_step_drafted
        step += 1
    return Found(answers, model.step_counts(), engine.vllm_config.cache_config.mamba_cache_mode)


def read(path: Path) -> Found:
    fields = json.loads(path.read_text())
    return Found(**fields | {"answers": {name: Answer(**one) for name, one in fields["answers"].items()}})


if __name__ == "__main__":
    found = ran(Wanted(**json.loads(Path(sys.argv[1]).read_text())))
    Path(sys.argv[2]).write_text(json.dumps(dataclasses.asdict(found)))
