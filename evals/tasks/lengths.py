"""MRCR's lengths: the strata by needles and length that its results are given by.

Both sets' lengths double from 4096 tokens on, and each has a tokenizer of its own: OpenAI's is o200k_base, of prompt and answer
together (its card; 100 items a length and number of needles), DeepMind's is Gemini's, of the prompt: its column ``context_len``.
"""

import re

SHORTEST = 4096
DOUBLINGS_OPENAI, DOUBLINGS_DEEPMIND = 8, 11  # to 1,048,576 and to 8,388,608
_STRATUM = re.compile(r"(\d+) needles, (\d+)-(\d+) tokens")


def bounds(tokens: int, doublings: int) -> tuple[int, int] | None:
    """The length's bounds: 4096 to 8192, both included, then without the lower one. None outside of all: that is no length."""
    for doubling in range(doublings):
        low = SHORTEST * 2**doubling
        if low < tokens <= 2 * low or tokens == low == SHORTEST:
            return low, 2 * low
    return None


def stratum(needles: int, tokens: int, doublings: int) -> str:
    """What an item's results are grouped by; by ``needles`` alone where its tokens were not counted (0)."""
    if not tokens:
        return f"{needles} needles"
    if found := bounds(tokens, doublings):
        return f"{needles} needles, {found[0]}-{found[1]} tokens"
    if tokens < SHORTEST:
        return f"{needles} needles, under {SHORTEST} tokens"
    return f"{needles} needles, over {SHORTEST * 2**doublings} tokens"


def needles(stratum: str) -> int:
    """The number of needles of any stratum made here; ValueError for another."""
    return int(stratum.split(" needles")[0])


def parts(stratum: str) -> tuple[int, int, int] | None:
    """Needles and bounds of a stratum; None where it names no length."""
    found = _STRATUM.fullmatch(stratum)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None
