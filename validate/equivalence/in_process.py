"""vLLM's engine in this process, stepped by us: arrivals, preemptions and times are exact to the step."""

import contextlib
import time
from collections.abc import Mapping
from typing import Any

from validate.equivalence.arm import ArmSet, Name
from validate.equivalence.engine import Answer, Ended, Lost, best, ending
from validate.equivalence.here import Here, line
from validate.equivalence.order import Order
from validate.equivalence.scenes import Request
from validate.errors import InputError

FORCING = "validate.equivalence.forcing:Forced"
FORCED_KEY = "k3_parity_forced"  # forcing.py imports vLLM, and so cannot be imported here


class InProcess(Here):
    """Plays scenes."""

    def __init__(self, arms: ArmSet, name: Name, plant: str | None = None) -> None:
        self._top, self._traces = arms.top, bool(arms.engine.get("enable_trace_replay"))
        further = {"logits_processors": [FORCING]} if arms.forced and not self._traces else {}
        super().__init__(arms, name, plant, **further)

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
                    inside[request.name] = self.engine.add_request(request.name, prompt, self._parameters(request))
                if order.preempt(progress):
                    self.engine.reset_prefix_cache(reset_running_requests=True)
                outputs = self.engine.step()
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
            raise Lost(f"vLLM failed: {line(error)}") from error
        finally:
            if inside:
                with contextlib.suppress(Exception):
                    self.engine.abort_request(list(inside), internal=True)

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
        return self.vllm.SamplingParams(**fields)

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
        core = getattr(self.engine.engine_core, "engine_core", None)  # in another process there is none
        if core is None:
            return
        for name, internal in inside.items():
            if request := core.scheduler.requests.get(internal):
                answers[name].preemptions = request.num_preemptions
