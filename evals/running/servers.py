"""Servers that the user started (``vllm serve``): OpenAI's chat completions, spread over the replicas of an arm.

Responses are streamed, so that a server that has died is told from one that thinks for long. It is the server's
parser that tells reasoning from content.
"""

import contextlib
import json
import queue
import random
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evals.running.asking import Account, Question, Replied, Reply
from validate.equivalence.arm import ArmSet
from validate.equivalence.engine import Lost
from validate.equivalence.identity import Identity
from validate.equivalence.server import PAUSES, SILENCE, Refused, Server
from validate.errors import InputError
from validate.long_output.signals.loops import loops, words

CHAT = "/v1/chat/completions"
ATTEMPTS = 5
# What says something about the request rather than about the server: too long, too large, malformed.
ABOUT_THE_REQUEST = (400, 413, 422)


@dataclass
class Open:
    """A question that has no reply yet. ``begun``: when it was asked first."""

    question: Question
    failures: int = 0
    begun: float = 0.0


@dataclass
class Streamed:
    """What came of a response so far."""

    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    finish: str | None = None
    prompt_tokens: int = 0
    tokens: int = 0

    def take(self, event: Mapping[str, Any]) -> None:
        """One event of the stream. Lost if it is an error, or none of a chat completion."""
        try:
            self._take(event)
        except (AttributeError, TypeError, ValueError) as error:
            raise Lost("an event of the stream is none of a chat completion") from error

    def _take(self, event: Mapping[str, Any]) -> None:
        if message := event.get("error"):
            raise Lost(str(message.get("message", message) if isinstance(message, Mapping) else message))
        for choice in event.get("choices") or ():
            delta = choice.get("delta") or {}
            self.content.append(_whole(delta.get("content")))
            self.reasoning.append(_whole(delta.get("reasoning") or delta.get("reasoning_content")))
            self.ids += choice.get("token_ids") or ()
            self.finish = _whole(choice.get("finish_reason")) or self.finish
        if usage := event.get("usage"):
            self.prompt_tokens, self.tokens = (int(usage.get(name) or 0) for name in ("prompt_tokens", "completion_tokens"))

    def reply(self, seconds: float, attempts: int) -> Reply:
        """Of a response that has ended."""
        content, reasoning = "".join(self.content), "".join(self.reasoning)
        return Reply(
            content=content or None,
            reasoning=reasoning or None,
            finish=self.finish,
            prompt_tokens=self.prompt_tokens,
            tokens=self.tokens,
            loop=loops(self.ids or words(reasoning + content)),
            seconds=seconds,
            attempts=attempts,
        )


def _whole(text: str | None) -> str:
    """The text, without halves of characters (surrogates), which JSON may hold and no file."""
    return (text or "").encode(errors="replace").decode()


class Replica(Server):
    """One server of an arm."""

    def stream(self, question: Question, stop: threading.Event) -> Streamed:
        """Asks once. Lost or ``Refused`` if it fails."""
        found = Streamed()
        for event, _ in self._events(CHAT, self._body(question), stop):
            found.take(event)
        if found.finish in (None, "abort", "error"):
            raise Lost(f"{self.url} ended a response without a result ({found.finish or 'the stream ended'})")
        return found

    def count(self, question: Question) -> int:
        """The prompt's tokens, as the server counts them."""
        try:
            return int(json.loads(self._patiently("POST", "/tokenize", self._asked_of(question)))["count"])
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{self.url} does not answer as vLLM does: /tokenize gives no count") from error

    def _asked_of(self, question: Question) -> dict[str, Any]:
        template = question.generation.get("chat_template_kwargs", {})
        return {"model": self.model, "messages": list(question.messages), "chat_template_kwargs": template}

    def _body(self, question: Question) -> dict[str, Any]:
        given = question.generation
        return self._asked_of(question) | {
            "seed": question.seed,
            "temperature": given["temperature"],
            "top_p": given.get("top_p", 1.0),
            "max_completion_tokens": given["max_gen_toks"],
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
        }


class Servers:
    """The replicas of an arm. InputError if one cannot be reached or serves something else, or is named twice."""

    def __init__(
        self,
        urls: Sequence[str],
        arms: ArmSet,
        concurrency: int,
        pauses: tuple[float, ...] = PAUSES,
        silence: float = SILENCE,
    ) -> None:
        if twice := next((url for url in urls if urls.count(url) > 1), None):
            raise InputError(f"{twice} is given twice: each replica is another server")
        self._replicas = [Replica(url, arms, pauses, silence) for url in urls]
        if len(models := {str(replica.serves) for replica in self._replicas}) > 1:
            raise InputError(f"the servers of the arm serve different models: {', '.join(sorted(models))}")
        self._concurrency, self._pauses = concurrency, pauses
        self.serves: str | None = models.pop()
        for replica in self._replicas:
            replica.facts()

    def ask(self, questions: Sequence[Question], replied: Replied) -> None:
        """See ``Asker``. ``concurrency`` requests at once at each replica; one that is lost leaves its own to the others."""
        asking = _Asking(self._pauses)
        for question in questions:
            asking.waiting.put(Open(question))
        working = 0
        for replica in self._replicas:
            for _ in range(min(self._concurrency, len(questions))):
                threading.Thread(target=asking.serve, args=(replica,), daemon=True).start()
                working += 1
        left = len(questions)
        try:
            while left:
                told = asking.told.get()
                if isinstance(told, tuple):
                    left -= 1
                    replied(*told)
                    continue
                working -= 1
                if not isinstance(told, Lost) or not working:
                    raise told
        finally:
            asking.stop.set()

    def count(self, question: Question) -> int:
        """See ``Asker``."""
        return self._replicas[0].count(question)

    def account(self) -> dict[str, Account]:
        """See ``Asker``."""
        found, lost = {}, Lost("no server")
        for replica in self._replicas:
            try:
                found[replica.url] = Account(replica.steps(), replica.metrics())
                replica.count_anew()
            except Lost as error:
                lost = error
        if not found:
            raise lost
        return found

    def identities(self) -> dict[str, Identity]:
        """See ``Asker``."""
        return {replica.url: replica.identity() for replica in self._replicas}

    def version(self) -> str:
        """See ``Asker``. InputError if they differ."""
        found = {replica.version() for replica in self._replicas}
        if len(found) > 1:
            raise InputError(f"the servers of the arm run different versions of vLLM: {', '.join(sorted(found))}")
        return found.pop()

    def close(self) -> None:
        """The servers are their user's."""


class _Asking:
    """Threads take what waits until they are told to stop; each belongs to a replica, and ends when that is lost."""

    def __init__(self, pauses: tuple[float, ...]) -> None:
        self.waiting: queue.Queue[Open] = queue.Queue()
        self.told: queue.Queue[tuple[Question, Reply] | Exception] = queue.Queue()
        self.stop = threading.Event()
        self._pauses = pauses

    def serve(self, replica: Replica) -> None:
        try:
            while not self.stop.is_set():
                with contextlib.suppress(queue.Empty):
                    self._try(replica, self.waiting.get(timeout=0.2))
        except Exception as error:  # the thread that waits has to know, whatever it is
            self.told.put(error)

    def _try(self, replica: Replica, one: Open) -> None:
        one.begun = one.begun or time.perf_counter()
        try:
            streamed = replica.stream(one.question, self.stop)
        except Refused as error:
            if error.status not in ABOUT_THE_REQUEST:
                raise
            return self._failed(one, f"the server answers {error.status}", error)
        except Lost as error:
            if not replica.wait():
                self.waiting.put(one)
                raise
            one.failures += 1
            if one.failures == ATTEMPTS:
                return self._failed(one, f"no response in {ATTEMPTS} attempts", error)
            pause = self._pauses[min(one.failures, len(self._pauses)) - 1]
            self.stop.wait(pause * random.uniform(0.5, 1.5))  # so that those that failed together do not come back together
            return self.waiting.put(one)
        return self.told.put((one.question, streamed.reply(time.perf_counter() - one.begun, one.failures + 1)))

    def _failed(self, one: Open, error: str, why: Exception) -> None:
        seconds = time.perf_counter() - one.begun
        reply = Reply(error=error, detail=str(why), seconds=seconds, attempts=max(1, one.failures))
        self.told.put((one.question, reply))
