r"""GSM8K: a number after the last ``####``.

- ``strict``: the last ``####`` is followed by a plain number (sign, digits, thousands commas, decimals). The field reads the
  first one, so that an answer which recites the examples before its own is wrong there (lm-evaluation-harness 3438).
- ``flexible``, the primary score: what follows the last ``####``; else the last ``\boxed{}``; else the last declared answer
  (``The answer is 18``). A currency sign, a unit and a full stop do not matter. The last number of the text is never taken: in
  ``Answer: 5 (checked 3 times)`` it is 3.

Numbers are compared as numbers.
"""

import re
from collections.abc import Iterator
from decimal import Decimal

from evals.grading import boxed
from evals.grading.response import Grade, NoAnswer, Response, graded

METRICS = ("flexible", "strict")
_DIGITS = r"(?:(?:[0-9]{1,3}(?:[,\u00a0\u2009\u202f][0-9]{3})++|[0-9]++)(?:\.[0-9]++)?+|\.[0-9]++)"
# No number: what goes on as one (1,23; 1.2.3; 18 000; 1e9; 18½), as a sum, a ratio or a range (9*2, 36/2, 18-20), or beside
# another one (18 or 20). Nothing is calculated: 9*2 = 18 is no answer.
_ENDS = (
    r"(?![,.'_:^/]?[0-9]|\{,\}[0-9]|\\[,!;][0-9]|[^\S\n][0-9]|[eE][-+]?[0-9]|[²³¹¼-¾⁰-₉⅐-↉]"
    r"|[^\S\n]*+(?:[-+*/x×÷\u2212\u2013]|\bor\b|\bto\b|\band\b|\\(?:times|cdot|div))[^\S\n]*+\\?[$€£¥]?[0-9])"
)
_PLAIN = re.compile(rf"\s*+([-+\u2212]?{_DIGITS}){_ENDS}")
_AROUND = boxed.STYLE + r"|\\(?:boxed|fbox)|[\s*_`$\\({\[=:€£¥]|USD|US|\b[A-Za-z](?=\s{0,4}=)"
_LOOSE = re.compile(rf"(?:{_AROUND})*+((?:[-+\u2212](?:\\?[$€£¥])?)?{_DIGITS}){_ENDS}")
_TEX_COMMA = re.compile(r"(?<=[0-9])(?:\{,\}|,?\\[,!])(?=[0-9]{3})")
_DECLARED = re.compile(r"\banswer\b[*_]*\s*(?:\bis\b|:|=)[*_]*(?:\s*(?:\bis\b|:|equal to\b))*", re.IGNORECASE)
_MARK = "####"


def grade(response: Response, gold: str) -> Grade:
    """``gold`` is a number, or the dataset's whole answer, which ends in ``#### n``."""
    wanted = value(gold.rpartition(_MARK)[2])
    if wanted is None:
        raise ValueError(f"the gold answer {gold[-40:]!r} ends in no number")

    def read(content: str) -> tuple[str, dict[str, float]]:
        content = content.rstrip("# \n")  # a line may be closed with the mark, too
        _, mark, after = content.rpartition(_MARK)
        strict = value(after) if mark else None
        answer, flexible = _flexible(content)
        return answer, {"flexible": flexible == wanted, "strict": strict == wanted}

    return graded(response, METRICS, read)


def value(text: str) -> Decimal | None:
    """The plain number at the beginning of ``text``."""
    return _decimal(_PLAIN.match(text))


def _flexible(content: str) -> tuple[str, Decimal]:
    """The answer as it is written, and its value."""
    content = _TEX_COMMA.sub(",", content)
    for text, begin in _candidates(content):
        found = _LOOSE.match(text, begin)
        number = _decimal(found)
        if found and number is not None:
            return found[1], number
    raise NoAnswer


def _candidates(content: str) -> Iterator[tuple[str, int]]:
    """Where the answer may stand, the best first: a text and where it begins there."""
    mark = content.rfind(_MARK)
    if mark >= 0:
        yield content, mark + len(_MARK)
    held = boxed.last(content)
    if held is not None:
        yield held, 0
    declared = [found.end() for found in _DECLARED.finditer(content)]
    yield from ((content, end) for end in reversed(declared))


def _decimal(found: re.Match[str] | None) -> Decimal | None:
    return None if found is None else Decimal(re.sub(r"[^0-9.-]", "", found[1].replace("\u2212", "-")))
