"""vLLM's engine in this process, stepped by us: arrivals, preemptions and times are exact to the step."""

import contextlib
import os
import time
from collections.abc import Mapping
from typing import Any

from validate.equivalence.arm import ArmSet, Name
from validate.equivalence.engine import Answer, Ended, Lost, best, block_size, ending
from validate.equivalence.order import Order
from validate.equivalence.scenes import Facts, Request
from validate.errors import InputError

EXTENSION = "validate.equivalence.extension.Steps"
FORCING = "validate.equivalence.forcing:Forced"
FORCED_KEY = "k3_parity_forced"  # forcing.py imports vLLM, and so cannot be imported here
PROGRESS = {"disable_log_stats": False}  # the counters of NaN logits and preemptions


class InProcess:
    """``LLMEngine`` with the arguments of one arm, ``plant`` a fault of it. InputError says why vLLM does not start."""

    def __init__(self, arms: ArmSet, name: Name, plant: str | None = None) -> None:
        for variable, value in arms.environment.items():
            os.environ[variable] = value
        # Before vLLM is imported, which sets some of its own that differ from process to process.
        self.environment = {name: value for name, value in sorted(os.environ.items()) if name.startswith("VLLM_")}
        try:
            import vllm
        except ImportError as error:
            raise InputError(f"vLLM cannot be imported ({error}): install it here, or name its servers with --url") from error
        self._vllm, self._top = vllm, arms.top
        self._traces = bool(arms.engine.get("enable_trace_replay"))
        arguments = PROGRESS | arms.arguments(name, plant) | {"model": arms.model, "worker_extension_cls": EXTENSION}
        if arms.forced and not self._traces:
            arguments["logits_processors"] = [FORCING]
        try:
            self._engine = vllm.LLMEngine.from_engine_args(vllm.EngineArgs(**arguments))
        except Exception as error:  # whatever vLLM, its model or its device objects to
            raise InputError(f"vLLM does not start with the arm {name} of {arms.name}: {_line(error)}") from error

    def facts(self) -> Facts:
        """As the engine settled them."""
        config = self._engine.vllm_config
        block = block_size(self.metrics()) or config.cache_config.block_size
        scheduler = config.scheduler_config
        return Facts(block, scheduler.max_num_batched_tokens, config.model_config.max_model_len, scheduler.max_num_seqs)

    def fresh(self) -> None:
        """See ``Engine``."""
        if not self._engine.reset_prefix_cache():
            raise InputError("the engine does not empty its prefix cache though no request runs")
        self._engine.collective_rpc("k3_parity_reset")

    def play(self, order: Order, ended: Ended) -> None:
        """See ``Engine``. One call of ``LLMEngine.step`` is one step of the scheduler, unless it schedules ahead."""
        answers: dict[str, Answer] = {}
        progress: dict[str, int] = {}
        inside: dict[str, str] = {}  # vLLM's own id of each request that runs
        done: set[str] = set()
        try:
            while not order.over(done):
                for request in order.due(progress, done):
                    answers[request.name] = Answer(request)
                    prompt = {"prompt_token_ids": list(request.prompt)}
                    inside[request.name] = self._engine.add_request(request.name, prompt, self._parameters(request))
                if order.preempt(progress):
                    self._engine.reset_prefix_cache(reset_running_requests=True)
                outputs = self._engine.step()
                stamp = time.perf_counter()
                self._preempted(answers, inside)
                for output in outputs:
                    answer = answers[output.request_id]
                    self._take(answer, output, stamp)
                    progress[output.request_id] = len(answer.tokens)
                    if output.finished:
                        done.add(output.request_id)
                        inside.pop(output.request_id)
                        ended(answer)
        except InputError:
            raise
        except Exception as error:  # an engine that failed in a step is lost, whatever it died of
            raise Lost(f"vLLM failed: {_line(error)}") from error
        finally:
            if inside:
                with contextlib.suppress(Exception):
                    self._engine.abort_request(list(inside), internal=True)

    def steps(self) -> list[Mapping[str, Any]]:
        """See ``Engine``."""
        return self._engine.collective_rpc("k3_parity_steps")

    def metrics(self) -> str:
        """See ``Engine``."""
        from prometheus_client import generate_latest

        return generate_latest().decode()

    def version(self) -> str:
        """See ``Engine``."""
        return str(self._vllm.__version__)

    def wait(self) -> bool:
        """See ``Engine``. What failed in this process does not come back."""
        return False

    def close(self) -> None:
        """See ``Engine``."""
        with contextlib.suppress(Exception):
            self._engine.engine_core.shutdown()

    def _parameters(self, request: Request) -> Any:
        from vllm.sampling_params import RequestOutputKind

        fields: dict[str, Any] = {
            "temperature": 0.0,
            "max_tokens": request.tokens,
            "logprobs": self._top or None,
            "stop": list(request.stop_strings),
            "stop_token_ids": list(request.stop_ids),
            "ignore_eos": request.ignore_eos,
            "detokenize": bool(request.stop_strings),
            "output_kind": RequestOutputKind.DELTA,
        }
        if request.forced:
            forced = list(request.forced)
            fields |= {"trace_decode_token_ids": forced} if self._traces else {"extra_args": {FORCED_KEY: forced}}
        return self._vllm.SamplingParams(**fields)

    def _take(self, answer: Answer, output: Any, stamp: float) -> None:
        (one,) = output.outputs
        tokens, chosen, top = list(one.token_ids), [], []
        for token, entry in zip(tokens, one.logprobs or (), strict=False):
            chosen.append(entry[token].logprob)
            top.append(best(((other, found.logprob) for other, found in entry.items()), self._top))
        answer.add(stamp, tokens, chosen, top)
        answer.cached = max(answer.cached, output.num_cached_tokens or 0)
        if drafts := getattr(one, "spec_decode_metrics", None):
            answer.drafted = drafts.num_draft_tokens
            answer.accepted = sum(accepted * count for accepted, count in enumerate(drafts.histogram))
        if output.finished:
            answer.finish = ending(one.finish_reason, one.stop_reason)

    def _preempted(self, answers: Mapping[str, Answer], inside: Mapping[str, str]) -> None:
        core = getattr(self._engine.engine_core, "engine_core", None)  # in another process there is none
        if core is None:
            return
        for name, internal in inside.items():
            if request := core.scheduler.requests.get(internal):
                answers[name].preemptions = request.num_preemptions


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]
