r"""AIME: an integer from 0 to 999 in the last balanced ``\boxed{...}``.

White space, dollar signs, a ``\text{}`` or the like around it and leading zeros do not matter. There is no fallback: an integer
elsewhere is no answer (``the answer is 70 (problem 15)`` would be read as 15).
"""

import re

from evals.grading import boxed
from evals.grading.response import Grade, NoAnswer, Response, graded

METRIC = "exact"
_WRAPPED = re.compile(r"\\(?:text|textbf|mathrm|mathbf|boldsymbol|mathit|bf|rm)\s*\{(.*)\}", re.DOTALL)
_SPACE = re.compile(r"\\[,;!: ]|~|\s|\$")


def grade(response: Response, gold: str) -> Grade:
    """``exact`` is 1 if the box holds the integer ``gold``."""

    def read(content: str) -> tuple[str, dict[str, float]]:
        held = boxed.last(content)
        if held is None:
            raise NoAnswer
        return held, {METRIC: number(held) == int(gold)}

    return graded(response, (METRIC,), read)


def number(held: str) -> int | None:
    """The integer from 0 to 999 that a box holds, None if it holds something else: ``1,070`` is no answer to anything."""
    held = _SPACE.sub("", held)
    while found := _WRAPPED.fullmatch(held):
        held = found[1]
    digits = held.lstrip("0") or "0" if re.fullmatch(r"[0-9]+", held) else ""
    return int(digits) if 0 < len(digits) <= 3 else None
