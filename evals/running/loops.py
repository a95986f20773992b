"""Whether a response ends in a loop."""

import re
from collections.abc import Sequence

# A loop, as llama.cpp (issue 26039) looks for one: a pattern of so many tokens at most, so many copies of which cover so many.
# Shorter stretches occur in sound answers (rules of tables, digits); below three copies a refrain would be one.
PERIOD, COPIES, COVERED = 128, 3, 48
TAIL = PERIOD * COPIES  # tokens of the end that decide it
CHARACTERS = 16 * TAIL  # of a text: more than its last ``TAIL`` words, as a rule


def loops(tokens: Sequence[object]) -> bool:
    """Whether the end of ``tokens`` repeats."""
    tail = tokens[-TAIL:]
    for period in range(1, PERIOD + 1):
        wanted = max(COPIES * period, COVERED)
        if len(tail) < wanted:
            return False
        if all(tail[-place] == tail[-place - period] for place in range(1, wanted - period + 1)):
            return True
    return False


def words(text: str) -> list[str]:
    """The end of a text whose tokens are not known, word by word, white space being part of the word behind it."""
    return re.findall(r"\s*\S+", text[-CHARACTERS:])
