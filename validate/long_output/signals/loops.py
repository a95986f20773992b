"""A loop: a pattern of tokens that is repeated. The one detector of the project, of long outputs and of evals.

A pattern of at most ``PERIOD`` tokens, at least ``COPIES`` copies of which cover at least ``COVERED`` tokens (llama.cpp issue
26039); or one of up to ``LONG`` tokens, a paragraph, with one copy more (16 to 1,024 times four there). Shorter stretches occur
in sound answers (rules of tables, digits); below three copies a refrain would be one. vLLM calls a ``min_count`` of 3 with
patterns of one token too aggressive (vllm-project/vllm 40097), and a pattern of four also fits twelve equal tokens: hence the
tokens covered are asked for, not copies alone.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

PERIOD, COPIES, COVERED = 128, 3, 48
LONG = 1024
TAIL = LONG * (COPIES + 1)  # tokens of the end that decide whether it is a loop
CHARACTERS = 16 * TAIL  # of a text: more than its last ``TAIL`` words, as a rule


@dataclass(frozen=True)
class Loop:
    """Tokens ``start`` to ``end`` (excluded) repeat with this period, its shortest one."""

    start: int
    end: int
    period: int


def find(tokens: Sequence[object]) -> list[Loop]:
    """All loops, the longest stretch of each period, by their starts; of equal stretches that of the shortest period.

    Time and memory grow with the number of tokens: a comparison of the tokens with themselves a period later, for each period.
    """
    numbers: dict[object, int] = {}
    ids = np.array([numbers.setdefault(token, len(numbers)) for token in tokens], dtype=np.int64)
    found: dict[tuple[int, int], Loop] = {}
    for period in range(1, min(LONG, len(ids) // COPIES) + 1):
        copies = COPIES if period <= PERIOD else COPIES + 1
        alike = np.concatenate([[False], ids[period:] == ids[:-period], [False]])
        edges = np.flatnonzero(alike[1:] != alike[:-1])
        starts, ends = edges[::2], edges[1::2] + period
        for n in np.flatnonzero(ends - starts >= max(copies * period, COVERED)):
            start, end = int(starts[n]), int(ends[n])
            # A loop of period p is one of 2 p, too, with the same stretch.
            found.setdefault((start, end), Loop(start, end, period))
    return sorted(found.values(), key=lambda loop: (loop.start, loop.period))


def loops(tokens: Sequence[object]) -> bool:
    """Whether the end of ``tokens`` repeats."""
    tail = tokens[-TAIL:]
    return any(loop.end == len(tail) for loop in find(tail))


def words(text: str) -> list[str]:
    """The end of a text whose tokens are not known, word by word, white space being part of the word behind it."""
    return re.findall(r"\s*\S+", text[-CHARACTERS:])
