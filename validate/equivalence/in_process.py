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
DICTATING = "validate.standin.dictating:Dictating"
TURNS_KEY = "k3_parity_turns"  # so does dictating.py


class InProcess(Here):
    """Plays scenes."""

    def __init__(self, arms: ArmSet, name: Name, plant: str | None = None) -> None:
        self._top, self._traces = arms.top, bool(arms.engine.get("enable_trace_replay"))
        processors = [FORCING] * (arms.forced and not self._traces) + [DICTATING] * arms.dictated
        super().__init__(arms, name, plant, **({"logits_processors": processors} if processors else {}))

    def play(self, order: Order, ended: Ended) -> None:
        """See ``Engine``. One call of ``LLMEngine.step`` is one step of the scheduler, unless it schedules ahead."""
        answers: dict[str, Answer] = {}
        progress: dict[str, int] = {}
        inside: dict[str, str] = {}  # vLLM's own id of each request that runs
        done: set[str] = set()
        try:
            while not order.over(done):
                for request in order.due(progress, done):
                    answers[request.name] = Answer(request, prompt=self._prompt(request))
                    prompt = {"prompt_token_ids": list(answers[request.name].prompt)}
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

    def _prompt(self, request: Request) -> tuple[int, ...]:
        if request.text is None:
            return request.prompt
        messages = [{"role": "user", "content": request.text}]
        return tuple(self.engine.get_tokenizer().apply_chat_template(messages, add_generation_prompt=True, tokenize=True))

    def _parameters(self, request: Request) -> Any:
        from vllm.sampling_params import RequestOutputKind

        fields: dict[str, Any] = {
            "temperature": request.temperature,
            "seed": request.seed,
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
        if request.turns:
            fields["extra_args"] = {TURNS_KEY: {"turns": [list(turn) for turn in request.turns], "end": request.end}}
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
            if answer.request.worded:
                decode = self.engine.get_tokenizer().decode
                answer.texts = tuple(
                    decode(answer.tokens[start:end], skip_special_tokens=False, clean_up_tokenization_spaces=False)
                    for start, end in answer.own
                )

    def _preempted(self, answers: Mapping[str, Answer], inside: Mapping[str, str]) -> None:
        core = getattr(self.engine.engine_core, "engine_core", None)  # in another process there is none
        if core is None:
            return
        for name, internal in inside.items():
            if request := core.scheduler.requests.get(internal):
                answers[name].preemptions = request.num_preemptions
