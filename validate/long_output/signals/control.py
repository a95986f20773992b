"""Control tokens where text should be: the parser would hand them to the user.

An answer has a skeleton of control tokens (Kimi K3's: vLLM 0.33.0, reasoning/kimi_k3_reasoning_parser.py). Each part of it may
occur once, in its order; whatever control token is left is a leak.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

MARKERS = ("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>", "[PAD]", "[BOS]", "[EOS]")
# What an answer may hold, after a prompt that ends within the reasoning: the end of that, the response, the end of the message.
RESPONSE = "<|open|>response<|sep|>"
SKELETON = (
    "<|close|>think<|sep|>",
    RESPONSE,
    "<|close|>response<|sep|>",
    "<|close|>message<|sep|>",
    "<|end_of_msg|>",
)
_ANY = re.compile("|".join(map(re.escape, MARKERS)))


@dataclass(frozen=True)
class Parsed:
    """``leak``: the place of the first control token that is none of the skeleton's.

    ``content``: what the response holds, all of the text where none was opened.
    """

    leak: int | None
    content: str


def parsed(text: str) -> Parsed:
    """One answer. The skeleton may be cut off anywhere, as the answer was."""
    allowed: list[tuple[int, int]] = []
    content, end, at = 0, len(text), 0
    for part in SKELETON:
        place = text.find(part, at)
        if place >= 0:
            at = place + len(part)
            allowed.append((place, at))
            if part == RESPONSE:
                content = at
            elif part in SKELETON[2:]:
                end = min(end, place)
    for part in SKELETON:  # cut off in the midst of one
        for length in range(len(part) - 1, 0, -1):
            if text.endswith(part[:length]):
                allowed.append((len(text) - length, len(text)))
                end = min(end, len(text) - length)
                break
    leaks = [m.start() for m in _ANY.finditer(text) if not any(start <= m.start() < stop for start, stop in allowed)]
    return Parsed(min(leaks, default=None), _ANY.sub("", text[content : max(content, end)]))


def leaked(text: str, tokens: Sequence[int], ids: Sequence[int] = ()) -> int | None:
    """The token of the first leak. ``ids``: those of control tokens, where they are known; else by ``token_of``."""
    place = parsed(text).leak
    if place is None:
        return None
    markers = [m.start() for m in _ANY.finditer(text)]
    at = [n for n, token in enumerate(tokens) if token in ids]
    # As many, or text spells one.
    return at[markers.index(place)] if len(at) == len(markers) else token_of(text, place, tokens)


def token_of(text: str, place: int, tokens: Sequence[int]) -> int:
    """The token at a character of the text: a control token is one, and the others are taken to be of equal length."""
    before = [m.end() - m.start() for m in _ANY.finditer(text[:place])]
    every = [m.end() - m.start() for m in _ANY.finditer(text)]
    rest = max(len(text) - sum(every), 1)
    within = (place - sum(before)) * max(len(tokens) - len(every), 0) // rest
    return min(len(before) + within, max(len(tokens) - 1, 0))
