"""An engine that answers by rule, and servers that do, and fail when they are told to."""

import hashlib
import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from evals.running.asking import Account, Question, Replied, Reply
from tests.equivalence.doubles import worker
from tests.server import Answers, running
from validate.equivalence.engine import Lost
from validate.equivalence.identity import Identity
from validate.records import provenance

STEP = {"kind": "decode", "rows": 1, "q": 1, "reason": ""}


def content(seed: int, last: str) -> str:
    """What both doubles answer: it hangs on the seed and on what is asked."""
    n = int(hashlib.sha256(f"{seed} {last}".encode()).hexdigest()[:8], 16)
    return f"The answer is \\boxed{{{n % 3}}}\n#### {n % 3}\nAnswer: {'ABCD'[n % 4]}"


def metrics(corrupted: int = 0) -> str:
    return f"vllm:corrupted_requests_total {corrupted}\n"


@dataclass
class Double:
    """An engine. ``errors``: (item, repeat) that fail; ``dies_after`` so many replies; ``seconds`` that each takes."""

    path: str = "default"
    errors: set[tuple[str, int]] = field(default_factory=set)
    dies_after: int | None = None
    seconds: float = 0.0
    corrupted: int = 0
    reply: Callable[[Question], Reply] | None = None
    asked: list[Question] = field(default_factory=list)
    steps: int = 0
    environment: dict[str, str] = field(default_factory=lambda: {"VLLM_COMPUTE_NANS_IN_LOGITS": "1"})
    weights: str = "0" * 16
    serves: str | None = None

    def ask(self, questions: Sequence[Question], replied: Replied) -> None:
        for question in questions:
            if self.dies_after is not None and len(self.asked) == self.dies_after:
                raise Lost("the engine died")
            self.asked.append(question)
            time.sleep(self.seconds)
            self.steps += 5
            replied(question, self.answer(question))

    def answer(self, question: Question) -> Reply:
        if (question.item, question.repeat) in self.errors:
            return Reply(error="no response in 5 attempts", detail=f"it quotes {question.messages[-1]['content']}")
        if self.reply:
            return self.reply(question)
        said = content(question.seed, question.messages[-1]["content"])
        return Reply(content=said, reasoning=f"I think of {question.messages[-1]['content']}", finish="stop", tokens=7)

    def identities(self) -> dict[str, Identity]:
        return {"a double": Identity(provenance.machine(), self.environment, {}, self.weights)}

    def count(self, question: Question) -> int:
        return sum(len(turn["content"]) for turn in question.messages)

    def account(self) -> dict[str, Account]:
        steps, self.steps = self.steps, 0
        step = [{**STEP, "path": self.path, "count": steps}] if steps else []
        return {"a double": Account([{"source": "a double", "steps": step, "sampled": 0}], metrics(self.corrupted))}

    def version(self) -> str:
        return "0"

    def close(self) -> None:
        pass


@dataclass
class Trouble:
    """Of a server: ``answer`` (HTTP status, text) to the first ``times`` completions, ``breaks`` streams cut off, ``event``: one
    more in every stream.

    ``dies_after`` so many completions it answers nothing at all, health neither. ``processes`` take turns behind the address.
    ``most`` completions ran at once.
    """

    answer: tuple[int, str] = (503, "busy")
    times: int = 0
    breaks: int = 0
    dies_after: int | None = None
    ids: bool = True
    model: str = "m"
    event: Any = None
    environment: dict[str, str] = field(default_factory=lambda: {"VLLM_COMPUTE_NANS_IN_LOGITS": "1"})
    processes: int = 1
    seconds: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)
    running: int = 0
    most: int = 0

    def take(self, name: str) -> bool:
        with self.lock:
            left = getattr(self, name)
            setattr(self, name, max(0, left - 1))
        return bool(left)


@contextmanager
def served(trouble: Trouble | None = None, longest: int = 2048) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The address of a server like vLLM's, and the bodies of the chat completions that it is asked for."""
    how, asked = trouble or Trouble(), list[dict[str, Any]]()
    steps = [0]

    class Handler(Answers):
        @property
        def dead(self) -> bool:
            return how.dies_after is not None and len(asked) > how.dies_after

        def do_GET(self) -> None:
            if self.dead:
                return self.connection.close()
            pages = {
                "/health": "",
                "/version": '{"version": "0.33.0"}',
                "/v1/models": json.dumps({"data": [{"id": how.model, "max_model_len": longest}]}),
                "/metrics": 'vllm:cache_config_info{block_size="16",engine="0"} 1.0\n' + metrics(),
            }
            return self.say(pages[self.path]) if self.path in pages else self.say("{}", 404)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "{}")
            if self.path == "/v1/chat/completions":
                self.complete(body)
            elif self.dead:
                self.connection.close()
            elif self.path == "/tokenize":
                self.say(json.dumps({"count": sum(len(turn["content"]) for turn in body["messages"])}))
            elif self.path == "/collective_rpc":
                count, steps[0] = (steps[0], 0) if body["method"] == "k3_parity_steps" else (0, steps[0])
                step = [{**STEP, "path": "default", "count": count}] if count else []
                process = str(random.randrange(how.processes))
                said = {"source": "a double", "steps": step, "sampled": 1, "process": process}
                answers = {"k3_parity_steps": said, "k3_parity_engine": worker(environment=how.environment)}
                self.say(json.dumps({"results": [answers.get(body["method"])]}))

        def complete(self, body: dict[str, Any]) -> None:
            asked.append(body)
            if self.dead:
                return self.connection.close()
            with how.lock:
                how.running += 1
                how.most = max(how.most, how.running)
            time.sleep(how.seconds)
            with how.lock:  # before the client knows that it has ended, and sends the next
                how.running -= 1
            if how.take("times"):
                return self.say(json.dumps({"error": {"message": how.answer[1]}}), how.answer[0])
            steps[0] += 5
            self.send_response(200)
            self.end_headers()
            self.event({"delta": {"role": "assistant", "content": ""}})
            self.event({"delta": {"reasoning": "I think."}, "token_ids": [1, 2]})
            if how.take("breaks"):
                return None
            if how.event is not None:
                self.line(how.event)
            said = content(body["seed"], body["messages"][-1]["content"])
            self.event({"delta": {"content": said[:5]}, "token_ids": [3]})
            self.event({"delta": {"content": said[5:]}, "token_ids": [4], "finish_reason": "stop"})
            self.line({"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 4}})
            self.wfile.write(b"data: [DONE]\n\n")
            return None

        def event(self, choice: dict[str, Any]) -> None:
            if not how.ids:
                choice.pop("token_ids", None)
            self.line({"choices": [choice]})

        def line(self, event: dict[str, Any]) -> None:
            self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())

    with running(Handler) as url:
        yield url, asked
