"""All signs of degeneration: what each is of one output, and whether any growth of it is granted."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from validate.equivalence.arm import LongOutputs
from validate.long_output.signals import compression, control, loops, runs, scripts
from validate.records.arm import Transcript

Find = Callable[[Transcript, LongOutputs], int | None]


@dataclass(frozen=True)
class Signal:
    """``find`` gives the token of the output at which it shows first, None where it does not.

    ``granted``: its rate may grow by the set's margin; else one output that shows it is a FAIL, if no default arm has one.
    """

    name: str
    find: Find
    granted: bool = True


def _own(t: Transcript) -> Iterator[tuple[int, tuple[int, ...], str]]:
    """What is the model's own: its first token's place, its tokens and its text."""
    for (start, end), text in zip(t.own, t.texts, strict=True):
        yield start, t.tokens[start:end], text


def _loop(t: Transcript, asked: LongOutputs) -> int | None:
    for start, tokens, _ in _own(t):
        if found := loops.find(tokens):
            return start + found[0].start
    return None


def _repetitive(t: Transcript, asked: LongOutputs) -> int | None:
    """Of all answers as one text: those of the stand-in are shorter than a window."""
    place = compression.repetitive("".join(t.texts), asked.ratio)
    if place is None:
        return None
    for start, tokens, text in _own(t):
        if place < len(text):
            return start + control.token_of(text, place, tokens)
        place -= len(text)
    return None


def _zero(t: Transcript, asked: LongOutputs) -> int | None:
    return runs.run(t.tokens, {asked.zero})


def _padding(t: Transcript, asked: LongOutputs) -> int | None:
    return runs.run(t.tokens, {asked.padding})


def _leak(t: Transcript, asked: LongOutputs) -> int | None:
    for start, tokens, text in _own(t):
        if (place := control.leaked(text, tokens, asked.control)) is not None:
            return start + place
    return None


def _script(t: Transcript, asked: LongOutputs) -> int | None:
    for start, tokens, text in _own(t):
        if (place := scripts.changed(text, set(asked.scripts), asked.foreign)) is not None:
            return start + control.token_of(text, place, tokens)
    return None


def _not_finite(t: Transcript, asked: LongOutputs) -> int | None:
    for position, value in enumerate(t.logprobs):
        if not math.isfinite(value) or not all(map(math.isfinite, t.top[position].logprobs if position < len(t.top) else ())):
            return position
    return None


def _truncated(t: Transcript, asked: LongOutputs) -> int | None:
    return len(t.tokens) if t.finish == "length" else None


def _empty(t: Transcript, asked: LongOutputs) -> int | None:
    """An answer without a response, or without content in it; of one that was cut off nothing is known."""
    if not t.own:
        return len(t.tokens)
    for n, (start, _, text) in enumerate(_own(t)):
        cut = t.finish == "length" and n == len(t.own) - 1
        if not cut and (control.RESPONSE not in text or not control.parsed(text).content.strip()):
            return start
    return None


SIGNALS = (
    Signal("zero run", _zero, granted=False),
    Signal("padding run", _padding, granted=False),
    Signal("non-finite logprob", _not_finite, granted=False),
    Signal("leaked control token", _leak, granted=False),
    Signal("loop", _loop),
    Signal("repetitive text", _repetitive),
    Signal("other script", _script),
    Signal("truncated", _truncated),
    Signal("empty answer", _empty),
)
