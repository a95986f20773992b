"""What an item is, how it is drawn, and which split its question belongs to."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, NamedTuple, TypeVar

Split = Literal["train", "test"]
T = TypeVar("T")
TESTED = 10  # one question in so many is a test question


class Message(NamedTuple):
    """One turn. ``role`` is ``user`` or ``assistant``."""

    role: str
    content: str


@dataclass(frozen=True)
class Problem:
    """A question with its ideal answer, before it has an id.

    ``key`` says what is asked and nothing of how it is put (names, order of options): two problems with one key are the
    same question. The other fields are those of :class:`Item`.
    """

    key: str
    messages: tuple[Message, ...]
    reasoning: str
    content: str
    target: str


@dataclass(frozen=True)
class Item:
    """One task.

    Attributes:
        id: ``shape/split/seed/index``, what it was drawn from.
        shape: ``integers``, ``choices``, ``stories`` or ``needles``.
        key: what is asked; equal keys, equal question.
        messages: the turns before the answer; the last is a user's.
        reasoning: the ideal reasoning.
        content: the ideal final content.
        target: what the final content is graded against, as the shape's file says.
    """

    id: str
    shape: str
    key: str
    messages: tuple[Message, ...]
    reasoning: str
    content: str
    target: str


class Draws:
    """Draws that are the same on every platform and Python: ``random()`` of a string's seed is what Python promises to keep."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed).random

    def below(self, n: int) -> int:
        """An integer from 0 to ``n`` - 1."""
        return int(self._random() * n)

    def between(self, low: int, high: int) -> int:
        """An integer from ``low`` to ``high``, both included."""
        return low + self.below(high - low + 1)

    def chance(self, p: float) -> bool:
        """True with probability ``p``."""
        return self._random() < p

    def pick(self, values: Sequence[T]) -> T:
        """One of ``values``."""
        return values[self.below(len(values))]

    def pick_rarer_last(self, values: Sequence[T]) -> T:
        """One of ``values``, the first most often: of 24, nearly three times as often as the last."""
        place = self.below(len(values))
        return values[min(place, self.below(len(values))) if self.chance(0.5) else place]

    def shuffled(self, values: Sequence[T]) -> list[T]:
        """All ``values`` in a random order."""
        return self.some(values, len(values))

    def some(self, values: Sequence[T], n: int) -> list[T]:
        """``n`` different places of ``values`` in a random order."""
        pool = list(values)
        return [pool.pop(self.below(len(pool))) for _ in range(n)]


def split_of(shape: str, key: str) -> Split:
    """The split that a question belongs to, whoever draws it: one in :data:`TESTED` is ``test``."""
    digest = hashlib.blake2b(f"{shape}: {key}".encode(), digest_size=8).digest()
    return "test" if int.from_bytes(digest, "big") % TESTED == 0 else "train"


def drawn(shape: str, seed: int, index: int, split: Split, draw: Callable[[Draws], Problem]) -> Item:
    """The item of (``split``, ``seed``, ``index``): the first problem drawn whose question belongs to ``split``."""
    name = f"{shape}/{split}/{seed}/{index}"
    draws = Draws(name)
    while True:
        problem = draw(draws)
        if split_of(shape, problem.key) == split:
            return Item(name, shape, problem.key, problem.messages, problem.reasoning, problem.content, problem.target)
