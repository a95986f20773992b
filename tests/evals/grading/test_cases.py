"""Contents whose grade is known."""

import pytest

from evals.grading import aime25, gpqa, gsm8k, mrcr
from evals.grading.response import Outcome, Response
from tests.evals.grading.cases import AIME, GPQA, GSM8K

SCORED, NO_ANSWER = Outcome.SCORED, Outcome.NO_ANSWER


@pytest.mark.parametrize(("content", "gold", "outcome", "score"), AIME)
def test_aime(content: str, gold: str, outcome: Outcome, score: float) -> None:
    found = aime25.grade(Response(content), gold)
    assert (found.outcome, found.scores) == (outcome, {"exact": score})


@pytest.mark.parametrize(("content", "gold", "flexible", "strict"), GSM8K)
def test_gsm8k(content: str, gold: str, flexible: float, strict: float) -> None:
    assert gsm8k.grade(Response(content), f"Worked out.\n#### {gold}").scores == {"flexible": flexible, "strict": strict}


@pytest.mark.parametrize(("content", "gold", "outcome", "score"), GPQA)
def test_gpqa(content: str, gold: str, outcome: Outcome, score: float) -> None:
    found = gpqa.grade(Response(content), gold)
    assert (found.outcome, found.scores) == (outcome, {"exact": score})


HASH, HASH12 = "aB3dE5gH7j", "aB3dE5gH7jK2"
POEM = "The river bends beneath the mill where children used to play.\n" * 4
OTHER = "A lantern in the window waits for someone far away tonight.\n" * 4


@pytest.mark.parametrize(
    ("content", "openai", "deepmind", "strict"),
    [
        ("{H}{P}", 1, 1, 1),
        ("\n{H}{P}", 0, 1, 1),
        ("{P}", 0, 0, 0),
        ("{h}{P}", 0, 0, 0),  # the string in small letters
        ("Here it is: {H}{P}", 0, 1, 0),
        ("{H}wrong {H}{P}", None, 1, 1),  # the last occurrence counts
        ("wrong {H}{P} {H}", 0, 0, 0),
    ],
)
def test_mrcr_prefixes(content: str, openai: float | None, deepmind: float, strict: float) -> None:
    text = content.format(H=HASH, h=HASH.lower(), P=POEM)
    found = mrcr.grade_openai(Response(text), HASH + POEM, HASH)
    assert found.outcome is SCORED
    assert openai is None or found.scores == {"ratio": openai}
    text = content.format(H=HASH12, h=HASH12.lower(), P=POEM)
    found = mrcr.grade_deepmind(Response(text), HASH12 + POEM, HASH12)
    assert found.outcome is SCORED
    assert found.scores == {"ratio": deepmind, "strict": strict}


def test_mrcr_ratios() -> None:
    assert mrcr.grade_openai(Response(HASH + "abcd"), HASH + "abxd", HASH).scores == {"ratio": 0.75}  # 2 * 3 of 8
    # With popular characters dropped, as published figures have it: below what an unrelated text would get without.
    assert mrcr.grade_openai(Response(HASH + OTHER), HASH + POEM, HASH).scores["ratio"] < 0.1


def test_mrcr_the_order_of_the_two_texts_is_each_benchmarks_own() -> None:
    short, long = "ab" * 50, "x" + "ab" * 150
    response, target = Response(HASH + long), HASH + short
    assert mrcr.grade_openai(response, target, HASH).scores["ratio"] > 0.1
    assert mrcr.grade_deepmind(response, target, HASH).scores["ratio"] == 0.0


GRADED = [
    (lambda response: aime25.grade(response, "70"), r"\boxed{70}"),
    (lambda response: gsm8k.grade(response, "#### 70"), "#### 70"),
    (lambda response: gpqa.grade(response, "C"), "Answer: C"),
    (lambda response: mrcr.grade_openai(response, HASH + POEM, HASH), HASH + POEM),
    (lambda response: mrcr.grade_deepmind(response, HASH12 + POEM, HASH12), HASH12 + POEM),
]


@pytest.mark.parametrize(("rule", "right"), GRADED)
def test_what_has_no_content_to_read_is_counted_as_that(rule, right: str) -> None:
    cases = [
        (Response(right), SCORED),
        (Response(right, error="HTTP 503"), Outcome.ERROR),
        (Response(right, finish_reason="abort"), Outcome.ERROR),
        (Response(right, finish_reason=None), Outcome.ERROR),
        (Response(right, finish_reason="length"), Outcome.TRUNCATED),
        (Response(None, reasoning=right, finish_reason="length"), Outcome.TRUNCATED),
        (Response(right, finish_reason="repetition"), Outcome.REPEATED),
        (Response(f"hm<|close|>think<|sep|><|open|>response<|sep|>{right}"), Outcome.UNPARSED),
        (Response("", reasoning=right), Outcome.EMPTY),
        (Response(None), Outcome.EMPTY),
        (Response(" \n"), Outcome.EMPTY),
    ]
    for response, outcome in cases:
        found = rule(response)
        assert found.outcome is outcome
        assert all(score == (outcome is SCORED) for score in found.scores.values())
        assert found.reasoning_only == (response.content == "")


@pytest.mark.parametrize(
    "rule",
    [
        lambda: gsm8k.grade(Response("#### 1"), "no number"),
        lambda: gpqa.grade(Response("Answer: A"), "AB"),
        lambda: mrcr.grade_openai(Response("x"), "text", "hash"),
        lambda: mrcr.grade_deepmind(Response("x"), "text", ""),
    ],
)
def test_a_gold_answer_that_is_none_is_refused(rule) -> None:
    with pytest.raises(ValueError, match="the gold answer"):
        rule()


def test_a_gold_answer_is_not_quoted() -> None:
    """Given by mistake, it would be an option's text, which may be in no log."""
    with pytest.raises(ValueError, match="not a letter") as error:
        gpqa.grade(Response("Answer: A"), "an option")
    assert "option" not in str(error.value)
