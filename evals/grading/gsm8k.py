r"""GSM8K: a number after the last ``####``.

- ``strict``: the last ``####`` is followed by a plain number (sign, digits, thousands commas, decimals). The field reads the
  first one, so that an answer which recites the examples before its own is wrong there (lm-evaluation-harness 3438).
- ``flexible``, the primary score: what follows the last ``####``; else the last ``\boxed{}``; else the last declared answer
  (``The answer is 18``). A currency sign, a unit and a full stop do not matter. The last number of the text is never taken: in
  ``Answer: 5 (checked 3 times)`` it is 3.

Numbers are compared as numbers.
"""

import re
from decimal import Decimal

from evals.grading import boxed
from evals.grading.response import Grade, NoAnswer, Response, graded

METRICS = ("flexible", "strict")
_NUMBER = r"[-+\u2212]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)?(?:\.[0-9]+)?"
_PLAIN = re.compile(rf"\s*({_NUMBER})(?![\w,]*[0-9])")
_AROUND = r"[\s*_`$\\({\[=:€£¥]|USD|US"
_LOOSE = re.compile(rf"(?:{_AROUND})*({_NUMBER})(?![0-9])")
_DECLARED = re.compile(r"\banswer\b[*_]*\s*(?:\bis\b|:|=)[*_]*(?:\s*(?:\bis\b|:|equal to\b))*", re.IGNORECASE)
_MARK = "####"


def grade(response: Response, gold: str) -> Grade:
    """``gold`` is a number, or the dataset's whole answer, which ends in ``#### n``."""
    wanted = value(gold.rpartition(_MARK)[2])
    if wanted is None:
        raise ValueError(f"the gold answer {gold[-40:]!r} ends in no number")

    def read(content: str) -> tuple[str, dict[str, float]]:
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
    for candidate in _candidates(content):
        found = _LOOSE.match(candidate)
        number = _decimal(found)
        if found and number is not None:
            return found[1], number
    raise NoAnswer


def _candidates(content: str) -> list[str]:
    """Where the answer may stand, the best first: texts that begin with it."""
    _, mark, after = content.rpartition(_MARK)
    held = boxed.last(content)
    declared = [found.end() for found in _DECLARED.finditer(content)]
    texts = [after] if mark else []
    texts += [re.sub(r"\\(?:text|mathrm)\{|\\[,;! ]", "", held)] if held is not None else []
    return texts + [content[end:] for end in reversed(declared)]


def _decimal(found: re.Match[str] | None) -> Decimal | None:
    if found is None or not any(character.isdigit() for character in found[1]):
        return None
    return Decimal(found[1].replace(",", "").replace("\u2212", "-"))
