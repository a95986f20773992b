"""MRCR in its two forms: a text that was written earlier is to be repeated, with a random string before it.

- OpenAI's (openai/mrcr): the content must begin with the string, to the letter and with nothing before it; the score is
  difflib's ratio of what follows to the target's rest, in this order.
- DeepMind's (eval_hub, mrcr_v2): the string may stand anywhere, its last occurrence counts; both rests are stripped, and the
  ratio is that of the target to the content: the arguments the other way round. That is what its code does
  (run_evaluation.py at 67b7fd2). ``strict`` is what the same file says that it does: 0 unless the content begins with the string,
  white space before it aside.

difflib drops popular characters of a second text of 200 and more (``autojunk``), so the order matters, and so does leaving it on:
published figures have it (two unrelated texts of 270 characters: 0.05 with it, 0.29 without).
"""

from difflib import SequenceMatcher

from evals.grading.response import Grade, Response, graded

METRIC, STRICT = "ratio", "strict"


def grade_openai(response: Response, gold: str, prefix: str) -> Grade:
    """``gold`` begins with ``prefix``, the random string."""
    target = _rest(gold, prefix)

    def read(content: str) -> tuple[str, dict[str, float]]:
        if not content.startswith(prefix):
            return content, {METRIC: 0.0}
        return content, {METRIC: SequenceMatcher(None, content.removeprefix(prefix), target).ratio()}

    return graded(response, (METRIC,), read)


def grade_deepmind(response: Response, gold: str, prefix: str) -> Grade:
    """``gold`` begins with ``prefix``, the hash."""
    target = _rest(gold, prefix).strip()

    def read(content: str) -> tuple[str, dict[str, float]]:
        _, found, rest = content.rpartition(prefix)
        ratio = SequenceMatcher(None, target, rest.strip()).ratio() if found else 0.0
        return content, {METRIC: ratio, STRICT: ratio * content.lstrip().startswith(prefix)}

    return graded(response, (METRIC, STRICT), read)


def _rest(gold: str, prefix: str) -> str:
    if not prefix or not gold.startswith(prefix):
        raise ValueError(f"the gold answer does not begin with its random string {prefix!r}")
    return gold.removeprefix(prefix)
