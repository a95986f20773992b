r"""AIME: an integer from 0 to 999 in the last balanced ``\boxed{...}``.

White space and dollar signs around it, ``\text{}`` and the like, leading zeros, a degree sign, a full stop and what it is said to
equal (``m + n = 70``) do not matter. There is no fallback: an integer elsewhere is no answer (``the answer is 70 (problem 15)``
would be read as 15).
"""

import re

from evals.grading import boxed
from evals.grading.response import Grade, NoAnswer, Response, graded

METRIC = "exact"
_STYLE = re.compile(rf"{boxed.STYLE}|[{{}}$\u200b\u2060\ufeff]|\\[()]|\^?\{{?\\circ\}}?|°")
_SPACE = re.compile(r"\\[,;!: ]|~|\s")
_EQUALS = re.compile(r"[^=,;]*=")


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
    held = _SPACE.sub(" ", _STYLE.sub("", held))
    if found := _EQUALS.match(held):
        held = held[found.end() :]
    held = held.strip().removesuffix(".").rstrip()
    digits = held.lstrip("0") or "0" if re.fullmatch(r"[0-9]+", held) else ""
    return int(digits) if 0 < len(digits) <= 3 else None
