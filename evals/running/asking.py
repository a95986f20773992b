"""What is asked, what comes back, and who asks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from validate.equivalence.identity import Identity


@dataclass(frozen=True)
class Question:
    """One request. ``messages``: role and content of each turn; ``generation``: lm-eval's arguments of generation."""

    task: str
    item: str
    repeat: int
    messages: Sequence[Mapping[str, str]]
    seed: int
    generation: Mapping[str, Any]

    @property
    def key(self) -> tuple[str, str, int]:
        """As ``Answered.key``."""
        return self.task, self.item, self.repeat


@dataclass(frozen=True)
class Reply:
    """What came of a question.

    ``error``: why nothing did, after ``attempts``; ``detail``: the same in the server's words, which may quote what was asked.
    ``tokens`` were generated, ``loop``: they end in one. ``seconds`` from the first attempt to the end.
    """

    content: str | None = None
    reasoning: str | None = None
    finish: str | None = None
    error: str | None = None
    detail: str = ""
    prompt_tokens: int = 0
    tokens: int = 0
    loop: bool = False
    seconds: float = 0.0
    attempts: int = 1


@dataclass(frozen=True)
class Account:
    """What an engine says of itself: ``k3_parity_steps`` of every rank, and its counters in Prometheus' text format."""

    steps: Sequence[Mapping[str, Any]]
    metrics: str


Replied = Callable[[Question, Reply], None]


class Asker(Protocol):
    """One arm's engine, or several that are alike. ``serves``: which model servers say they have."""

    serves: str | None

    def identities(self) -> dict[str, Identity]:
        """Which engines they are, by their names, as their workers say."""
        ...

    def ask(self, questions: Sequence[Question], replied: Replied) -> None:
        """Asks all, and calls ``replied`` in this thread with each that is through. Lost if no engine answers any more."""
        ...

    def count(self, question: Question) -> int:
        """The prompt's tokens, chat template included."""
        ...

    def account(self) -> dict[str, Account]:
        """Of each engine that answers, by its name, what it counted since the last account. Lost if none answers."""
        ...

    def version(self) -> str:
        """The version of vLLM."""
        ...

    def close(self) -> None:
        """Gives the engine's memory back."""
        ...
