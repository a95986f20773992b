r"""GPQA-Diamond: the letter of the last declared answer.

``Answer: C``, ``**Answer:** (C)``, ``The answer is C``, ``Correct option: C``, ``\boxed{C}``, a heading ``Answer`` above a line
with the letter alone, full-width letters and signs, and ``Answer`` in other languages declare one; a letter anywhere else does
not. Two letters in one declaration (``Answer: C or D``) are no answer. Option texts are never read, so nothing has to be cleaned
out of them.
"""

import re
import unicodedata

from evals.grading import boxed
from evals.grading.response import Grade, NoAnswer, Response, graded

METRIC = "exact"
LETTERS = "ABCD"
# "Answer" in English, Chinese, Japanese, Korean, German, French, Spanish, Portuguese, Italian, Russian.
_WORD = (
    r"(?:(?<!wrong )(?<!incorrect )\banswer|\bcorrect (?:option|choice)"
    r"|答案|回答|答え|정답|답|\bantwort|\bréponse|\brespuesta|\bresposta|\brisposta|\bответ)"
)
_IS = (
    r"(?:\s*+(?:[:=\u2013\u2014-]|\bis\b|\b(?:should|must|would) be\b|\bist\b|\best\b|\bes\b|\bé\b|\bè\b"
    r"|是|为|為|选(?!项)|は|은|는))++"
)
_AROUND = (
    rf"(?:{boxed.STYLE}|\\(?:boxed|fbox)"
    r"|[\s*_`$({\[\\\"'\u2018\u201c«<>-]|\b(?:option|choice|letter|therefore|thus)\b|选项|選項){0,20}"  # bounded: linear time
)
# The letter is a word of its own (what may follow in Chinese, Japanese and Korean has no space before it), no C=O, C-H or C_6.
_LETTER = r"([A-D])(?![^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]|[\u0300-\u036f]|[-=+^_][^\W_])"
_DECLARED = re.compile(
    rf"(?:{_WORD}[*_]*+(?:{_IS}|(?=\s{{0,4}}\n[\s*_(]{{0,8}}[A-D][*_).]*+[^\S\n]*+(?:\n|\Z)))|\\(?:boxed|fbox)){_AROUND}{_LETTER}",
    re.IGNORECASE,
)
_SECOND = re.compile(
    r"[\s*_)\]}.'\"$\\]*+(?:(?:[,;/&|]|\b(?i:or|and)\b|或|和|\bpossibly\b|\bmaybe\b|\bperhaps\b)\s*+)++"
    rf"(?:[\s*_(\[{{'\"$\\]|{boxed.STYLE})*{_LETTER}(?! (?:is|are|was)\b)"
)
# A small letter is an article or a variable unless the declaration ends with it.
_ENDED = re.compile(r"[*_\]}]*+(?:\)|\s*+(?:[.;]|\Z)|[^\S\n]*\n)")


def grade(response: Response, gold: str) -> Grade:
    """``exact`` is 1 if the letter declared last is ``gold``."""
    if len(gold) != 1 or gold not in LETTERS:
        raise ValueError("the gold answer is not a letter from A to D")  # what it is may be the data set's text

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
        if found[1].isupper() or _ENDED.match(text, found.end()):
            last = found
    if last is None or _SECOND.match(text, last.end()):
        return None
    return last[1].upper()
