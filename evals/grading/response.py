"""What came back for one request, and what it is worth."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

# Kimi K3's control tokens (vLLM 0.33.0, reasoning/kimi_k3_reasoning_parser.py): in a content they say that the parser left
# reasoning in it.
MARKERS = ("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>")

# Ways in which vLLM ends a request that it did not finish (0.33.0, v1/engine/__init__.py); None: a stream that broke off.
BROKEN = (None, "abort", "error")


class Outcome(StrEnum):
    """What became of a request, in the order in which it is decided."""

    ERROR = "error"  # it never succeeded, or broke off
    TRUNCATED = "truncated"  # it reached its budget of tokens
    REPEATED = "repeated"  # the engine ended it as a loop
    UNPARSED = "unparsed"  # control tokens are in the content
    EMPTY = "empty"  # no final content
    NO_ANSWER = "no_answer"  # a content that declares none, or two
    SCORED = "scored"


@dataclass(frozen=True)
class Response:
    """One choice of a completion as an OpenAI-compatible server gives it.

    Attributes:
        content: the final content.
        reasoning: what was thought before it; it is never graded.
        finish_reason: ``stop``, ``length``, ``repetition``, ...
        error: why there is no completion, after all retries.
    """

    content: str | None
    reasoning: str | None = None
    finish_reason: str | None = "stop"
    error: str | None = None


@dataclass(frozen=True)
class Grade:
    """Scores from 0 to 1 by metric, the primary one first; all are 0 where the outcome is not ``SCORED``.

    ``answer`` is what was read as the answer, None if nothing was. ``reasoning_only``: all that there is was reasoning, which
    tells of a parser that found no content (sglang 33995) rather than of a model.
    """

    outcome: Outcome
    scores: Mapping[str, float]
    answer: str | None = None
    reasoning_only: bool = False


class NoAnswer(Exception):
    """Raised by what reads a content: it declares no answer, or more than one."""


def graded(response: Response, metrics: tuple[str, ...], read: Callable[[str], tuple[str, Mapping[str, float]]]) -> Grade:
    """The outcome, and what ``read`` makes of the final content: the answer and its scores by metric.

    ``read`` raises :class:`NoAnswer` where the content declares none.
    """
    nothing = dict.fromkeys(metrics, 0.0)
    content = response.content or ""
    if response.error is not None or response.finish_reason in BROKEN:
        return Grade(Outcome.ERROR, nothing)
    if response.finish_reason == "length":
        return Grade(Outcome.TRUNCATED, nothing)
    if response.finish_reason == "repetition":
        return Grade(Outcome.REPEATED, nothing)
    if any(marker in content for marker in MARKERS):
        return Grade(Outcome.UNPARSED, nothing)
    if not content.strip():
        return Grade(Outcome.EMPTY, nothing, reasoning_only=bool((response.reasoning or "").strip()))
    try:
        answer, scores = read(content)
    except NoAnswer:
        return Grade(Outcome.NO_ANSWER, nothing)
    return Grade(Outcome.SCORED, {metric: float(scores[metric]) for metric in metrics}, answer)
