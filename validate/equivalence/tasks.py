"""What long outputs and canaries are asked: of the practice model in token ids, of Kimi K3 in words (``tasks.toml``)."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

Source = Literal["practice", "words"]
SEED = 2  # of the practice items; prompts of the other scenes have seed 0


@dataclass(frozen=True)
class Task:
    """``prompt``: ids, or ``text``, of which the engine makes them. ``turns``, ``end``: see ``scenes.Request``.

    ``stops``: ids that end the output. ``answer``: what a right one holds, where it is known.
    """

    prompt: tuple[int, ...] = ()
    text: str | None = None
    turns: tuple[tuple[int, ...], ...] = ()
    end: int = -1
    stops: tuple[int, ...] = ()
    answer: str | None = None


def canaries(source: Source, count: int) -> Iterator[Task]:
    """Short questions, at most as many as there are of ``words``."""
    if source == "words":
        for one in _words()["canaries"][:count]:
            yield Task(text=one["text"], answer=one["answer"])
        return
    for n in range(count):
        item = _item(n, "canary", n)
        yield Task(_ids(_prompt(item)), answer=item.content)


def long(source: Source, count: int, turns: int) -> Iterator[Task]:
    """What makes long outputs: of ``words`` each in turn; of the practice model ``turns`` questions within each.

    Without turns one question is answered, and nothing is dictated.
    """
    if source == "words":
        texts = _words()["long"]
        for n in range(count):
            yield Task(text=texts[n % len(texts)]["text"])
        return
    # The byte 0, which no text of the tasks holds, ends the output behind the last answer.
    from evals.practice import chat

    # All questions of an output are of one shape, and none is a choice: behind other questions than it was trained with the model
    # answers those in the others' words, and ends its reasoning twice.
    (end,), (stop,) = _ids(chat.END), _ids("\0")
    for n in range(count):
        first, *others = (_ids(_prompt(_item(n % 2, f"long-{n}", turn))) for turn in range(max(turns, 1)))
        yield Task(first, turns=(*others, (stop,)), end=end, stops=(stop,)) if turns else Task(first)


def _item(shape: int, name: str, n: int) -> Any:
    """Of one of the three shapes with short questions."""
    import random

    from evals.practice import choices, integers, stories

    draws = random.Random(f"{SEED}/{name}/{n}")
    return (integers, stories, choices)[shape % 3].item(SEED, draws.randrange(2**31), "test")


def _prompt(item: Any) -> str:
    from evals.practice import chat

    return chat.prompt(item.messages, True)


@cache
def _ids(text: str) -> tuple[int, ...]:
    return tuple(_tokenizer().encode(text).ids)


@cache
def _tokenizer() -> Any:
    from evals.practice import tokenizer

    return tokenizer.load()


@cache
def _words() -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath("tasks.toml").read_text(encoding="utf-8"))
