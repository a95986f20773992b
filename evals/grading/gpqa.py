"""GPQA-Diamond: the letter of the last declared answer.

``Answer: C``, ``**Answer:** (C)``, ``The answer is C``, full-width letters and signs, and ``Answer`` in other languages declare
one; a letter anywhere else does not. Two letters in one declaration (``Answer: C or D``) are no answer. Option texts are never
read, so nothing has to be cleaned out of them.
"""

import re
import unicodedata

from evals.grading.response import Grade, NoAnswer, Response, graded

METRIC = "exact"
LETTERS = "ABCD"
# "Answer" in English, Chinese, Japanese, Korean, German, French, Spanish, Portuguese, Italian, Russian.
_WORD = r"(?:\banswer|答案|回答|答え|정답|답|\bantwort|\bréponse|\brespuesta|\bresposta|\brisposta|\bответ)"
_IS = r"(?:\s*(?:[:=]|\bis\b|\bist\b|\best\b|\bes\b|\bé\b|\bè\b|是|为|為|は|은|는))+"
_AROUND = r"[\s*_`$({\[\\\"']|\\boxed|\\text|\\mathrm|\\mathbf|\boption\b|\bchoice\b|\bletter\b|选项|選項"
_DECLARED = re.compile(rf"{_WORD}[*_\s]*{_IS}(?:{_AROUND})*([A-D])(?![^\W_])", re.IGNORECASE)
_SECOND = re.compile(r"[\s*_)\]}.'\"]*(?:,|/|&|\bor\b|\band\b|或|和)[\s*_(\[{'\"]*([A-D])(?![^\W_])")


def grade(response: Response, gold: str) -> Grade:
    """``exact`` is 1 if the letter declared last is ``gold``."""
    if len(gold) != 1 or gold not in LETTERS:
        raise ValueError(f"the gold answer is {gold!r}, not a letter from A to D")

    def read(content: str) -> tuple[str, dict[str, float]]:
        letter = declared(content)
        if letter is None:
            raise NoAnswer
        return letter, {METRIC: letter == gold}

    return graded(response, (METRIC,), read)


def declared(content: str) -> str | None:
    """The letter of the last declaration; None if there is none or it names two."""
    text = unicodedata.normalize("NFKC", content)  # full-width letters, colons and brackets
    last = None
    for found in _DECLARED.finditer(text):
        if found[1].isupper() or re.match(r"[*_)\]}]*\s*(?:[.;]|\n|$)", text[found.end() :]):  # "is a ..." is an article
            last = found
    if last is None or _SECOND.match(text, last.end()):
        return None
    return last[1].upper()
