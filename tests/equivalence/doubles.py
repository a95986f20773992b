"""An engine and a server that decode by rule, and fail when they are told to."""

import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.server import Answers, running
from validate.equivalence.arm import ArmSet
from validate.equivalence.engine import Answer, Ended, Lost
from validate.equivalence.identity import Identity
from validate.equivalence.order import Order
from validate.equivalence.scenes import Facts, Request
from validate.records import provenance
from validate.records.arm import Top

BLOCK = 16
STEP = {"kind": "decode", "rows": 1, "q": 1, "reason": ""}


def decoded(prompt: tuple[int, ...] | list[int], n: int) -> list[int]:
    """The tokens that both doubles decode."""
    return [(sum(prompt) + 7 * k) % 100 for k in range(n)]


def arm_set(*scenes: dict[str, Any], **fields: Any) -> ArmSet:
    made = {"kind": "together", "name": "some", "sizes": [2], "lengths": [3, 5], "tokens": 4}
    engine = {"max_model_len": 200, "max_num_batched_tokens": 40, "max_num_seqs": 4}
    whole = {
        "name": "test",
        "description": "",
        "model": "none",
        "layers": 1,
        "attn_res_block": 1,
        "prompt_ids": [3, 90],
        "top": 2,
        "engine": engine,
    }
    return ArmSet.model_validate(whole | {"scenes": scenes or (made,)} | fields)


@dataclass
class Double:
    """An engine. ``fails``: the calls of ``play``, counted from 1, in which it is lost when half of the requests have ended."""

    path: str = "default"
    fails: tuple[int, ...] = ()
    cached: int = 0
    preempts: bool = True
    corrupted: int = 0
    logprob: float = -0.5
    said: int = 1
    plays: list[list[str]] = field(default_factory=list)
    preemptions: int = 0
    environment: dict[str, str] = field(default_factory=dict)
    weights: str = "0" * 16
    serves: str | None = None

    def identity(self) -> Identity:
        return Identity(provenance.machine(), self.environment, {}, self.weights)

    def facts(self) -> Facts:
        return Facts(BLOCK, 40, 200, 4)

    def fresh(self) -> None:
        pass

    def play(self, order: Order, ended: Ended) -> None:
        self.plays.append([])
        progress: dict[str, int] = {}
        done: set[str] = set()
        running: list[Request] = []
        while not order.over(done):
            running += order.due(progress, done)
            self.plays[-1] += [r.name for r in running if r.name not in progress]
            self.preemptions += self.preempts and order.preempt(progress)
            for request in list(running):
                progress[request.name] = progress.get(request.name, 0) + 1
                if progress[request.name] < request.tokens:
                    continue
                if len(self.plays) in self.fails and 2 * len(done) >= len(running):
                    raise Lost("the engine died")
                tokens = list(request.forced) or decoded(request.prompt, request.tokens)
                answer = Answer(request, finish="length", cached=self.cached)
                answer.add(
                    answer.arrived + 0.5, tokens, [self.logprob] * len(tokens), [Top(ids=(1,), logprobs=(-0.5,))] * len(tokens)
                )
                running.remove(request)
                done.add(request.name)
                ended(answer)

    def steps(self) -> list[Mapping[str, Any]]:
        step = {**STEP, "path": self.path, "count": 4}
        return [{"source": "a double", "steps": [step], "sampled": n * (self.said - 1)} for n in range(max(1, self.said))]

    def metrics(self) -> str:
        return f"vllm:num_preemptions_total {self.preemptions}\nvllm:corrupted_requests_total {self.corrupted}\n"

    def version(self) -> str:
        return "0"

    def wait(self) -> bool:
        return False

    def close(self) -> None:
        pass


def worker(**changed: Any) -> dict[str, Any]:
    """What a worker says of its engine."""
    machine = provenance.machine().model_dump(mode="json")
    return {"machine": machine, "environment": {}, "arguments": {}, "weights": "0" * 16} | changed


@dataclass
class Faults:
    """``answer``: (HTTP status, text) for ``times`` completions after the ``spared`` first; ``breaks``: streams cut off.

    ``meets``: the first completion waits until it is passed, so that servers that share it have all been asked. ``bare``: none of
    vLLM's development endpoints. ``processes`` take turns behind the address.
    """

    answer: tuple[int, str] | None = None
    times: int = 0
    spared: int = 0
    breaks: int = 0
    silent: float = 0.0
    meets: threading.Barrier | None = None
    bare: bool = False
    processes: int = 1
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, name: str) -> bool:
        with self.lock:
            left = getattr(self, name)
            setattr(self, name, max(0, left - 1))
        return bool(left > 0)


@contextmanager
def served(faults: Faults | None = None, longest: int = 200) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The address of a server like vLLM's, and the bodies of the completions that it is asked for."""
    trouble, asked = faults or Faults(), list[dict[str, Any]]()

    class Handler(Answers):
        def do_GET(self) -> None:
            pages: dict[str, Callable[[], str]] = {
                "/health": lambda: "",
                "/version": lambda: '{"version": "0.33.0"}',
                "/v1/models": lambda: json.dumps({"data": [{"id": "m", "max_model_len": longest}]}),
                "/metrics": lambda: f'vllm:cache_config_info{{block_size="{BLOCK}",engine="0"}} 1.0\n',
            }
            self.say(pages[self.path]()) if self.path in pages else self.say("{}", 404)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "{}")
            if self.path == "/v1/completions":
                self.complete(body)
            elif trouble.bare:
                self.say('{"detail": "Not Found"}', 404)
            elif self.path == "/collective_rpc":
                process = str(random.randrange(trouble.processes))
                said = {
                    "source": "a double",
                    "steps": [{**STEP, "path": "default", "count": 4}],
                    "sampled": 1,
                    "process": process,
                }
                answers = {"k3_parity_steps": said, "k3_parity_engine": worker()}
                self.say(json.dumps({"results": [answers.get(body["method"])]}))
            else:
                self.say('{"success": true}')

        def complete(self, body: dict[str, Any]) -> None:
            asked.append(body)
            if not trouble.take("spared") and trouble.answer and trouble.take("times"):
                return self.say(json.dumps({"error": {"message": trouble.answer[1]}}), trouble.answer[0])
            time.sleep(trouble.silent)
            with trouble.lock:
                meets, trouble.meets = trouble.meets, None
            if meets is not None:
                meets.wait()
            self.send_response(200)
            self.end_headers()
            tokens = decoded(body["prompt"], body["max_tokens"])
            breaks = trouble.take("breaks")
            for n, token in enumerate(tokens):
                if breaks and n == 2:
                    return None
                logprobs = {"token_logprobs": [-0.5], "top_logprobs": [{f"token_id:{token}": -0.5, "token_id:101": -1.5}]}
                choice = {"token_ids": [token], "logprobs": logprobs, "finish_reason": "length" if n == len(tokens) - 1 else None}
                self.event({"choices": [choice]})
            self.event({"choices": [], "usage": {"prompt_tokens_details": {"cached_tokens": 5}}})
            self.wfile.write(b"data: [DONE]\n\n")

        def event(self, content: dict[str, Any]) -> None:
            self.wfile.write(f"data: {json.dumps(content)}\n\n".encode())

    with running(Handler) as url:
        yield url, asked
