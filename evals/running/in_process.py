"""The stand-in in vLLM's engine in this process."""

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from evals.practice import chat, tokenizer
from evals.practice.item import Message
from evals.running.asking import Account, Question, Replied, Reply
from evals.running.watching import Stopped
from validate.equivalence.arm import ArmSet, Name
from validate.equivalence.engine import Lost
from validate.equivalence.here import Here, line
from validate.equivalence.identity import Identity
from validate.errors import InputError
from validate.long_output.signals.loops import loops


class InProcess:
    """Asks in waves: once half of ``concurrency`` requests have ended, as many are added.

    A step in which a prompt is read runs on the default path, whatever else is in it. The stand-in's answers are short, so that
    requests added one by one would leave hardly a step to the specialized path.
    """

    def __init__(self, arms: ArmSet, name: Name, plant: str | None, concurrency: int) -> None:
        if not arms.stand_in:
            raise InputError(f"{arms.name} is not the stand-in: name its servers with --default-url and --specialized-url")
        self._here, self._concurrency = Here(arms, name, plant), concurrency
        self._tokenizer = tokenizer.load()
        self.serves = self._here.serves

    def ask(self, questions: Sequence[Question], replied: Replied) -> None:
        """See ``Asker``."""
        waiting, running = deque(questions), dict[str, tuple[Question, float]]()
        try:
            while waiting or running:
                if len(running) <= self._concurrency // 2:
                    self._add(waiting, running, replied)
                for output in self._here.engine.step():
                    question, begun = running.pop(output.request_id)
                    replied(question, _reply(question, output, time.perf_counter() - begun))
        except (InputError, Stopped):
            raise
        except Exception as error:  # an engine that failed in a step is lost, whatever it died of
            raise Lost(f"vLLM failed: {line(error)}") from error

    def count(self, question: Question) -> int:
        """See ``Asker``."""
        return len(self._prompt(question))

    def account(self) -> dict[str, Account]:
        """See ``Asker``."""
        found = Account(self._here.steps(), self._here.metrics())
        self._here.count_anew()
        return {"in process": found}

    def identities(self) -> dict[str, Identity]:
        """See ``Asker``."""
        return {"in process": self._here.identity()}

    def version(self) -> str:
        """See ``Asker``."""
        return self._here.version()

    def close(self) -> None:
        """See ``Asker``."""
        self._here.close()

    def _add(self, waiting: deque[Question], running: dict[str, tuple[Question, float]], replied: Replied) -> None:
        while waiting and len(running) < self._concurrency:
            question = waiting.popleft()
            name = "/".join(map(str, question.key))
            try:
                self._here.engine.add_request(name, {"prompt_token_ids": self._prompt(question)}, self._parameters(question))
            except ValueError as error:  # a prompt that is too long
                replied(question, Reply(error="the engine refuses it", detail=line(error)))
                continue
            running[name] = question, time.perf_counter()

    def _prompt(self, question: Question) -> list[int]:
        messages = tuple(Message(turn["role"], turn["content"]) for turn in question.messages)
        return list(self._tokenizer.encode(chat.prompt(messages, thinking(question))).ids)

    def _parameters(self, question: Question) -> Any:
        from vllm.sampling_params import RequestOutputKind

        given = question.generation
        return self._here.vllm.SamplingParams(
            temperature=given["temperature"],
            top_p=given.get("top_p", 1.0),
            max_tokens=given["max_gen_toks"],
            seed=question.seed,
            skip_special_tokens=False,
            spaces_between_special_tokens=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )


def thinking(question: Question) -> bool:
    """Whether the model is to think first; it does where nothing is said."""
    return bool(question.generation.get("chat_template_kwargs", {}).get("thinking", True))


def _reply(question: Question, output: Any, seconds: float) -> Reply:
    (one,) = output.outputs
    content, reasoning = chat.parsed(one.text, thinking(question))
    return Reply(
        content=content,
        reasoning=reasoning,
        finish=one.finish_reason,
        prompt_tokens=len(output.prompt_token_ids),
        tokens=len(one.token_ids),
        loop=loops(one.token_ids),
        seconds=seconds,
    )
