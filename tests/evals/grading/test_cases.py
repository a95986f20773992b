r"""Contents whose grade is known, with where the field's patterns read them otherwise."""

import pytest

from evals.grading import aime25, gpqa, gsm8k, mrcr
from evals.grading.response import Outcome, Response

SCORED, NO_ANSWER = Outcome.SCORED, Outcome.NO_ANSWER


@pytest.mark.parametrize(
    ("content", "gold", "outcome", "score"),
    [
        (r"\boxed{070}", "70", SCORED, 1),
        (r"\boxed{\text{70}}", "70", SCORED, 1),  # a pattern that ends at the first brace finds nothing
        (r"\boxed{\mathbf{\text{ 70 }}}", "70", SCORED, 1),
        (r"$\boxed{ 70\,}$", "70", SCORED, 1),
        (r"\boxed{70} ... wait, \boxed{71}", "70", SCORED, 0),
        (r"\boxed{71} ... wait, \boxed{70", "71", SCORED, 1),  # the last that is closed
        ("the answer is 70 (problem 15)", "70", NO_ANSWER, 0),  # a fallback reads 15
        (r"\boxed{1,070}", "70", SCORED, 0),  # split at the comma it is 070
        (r"\boxed{70.0}", "70", SCORED, 0),
        (r"\boxed{-70}", "70", SCORED, 0),
        (r"\boxed{}", "0", SCORED, 0),
        (r"\boxed{000}", "0", SCORED, 1),
        (r"\boxed{x \in \{1, 2\}}", "2", SCORED, 0),
        (r"\boxed{７０}", "70", SCORED, 0),
    ],
)
def test_aime(content: str, gold: str, outcome: Outcome, score: float) -> None:
    found = aime25.grade(Response(content), gold)
    assert (found.outcome, found.scores) == (outcome, {"exact": score})


@pytest.mark.parametrize(
    ("content", "gold", "flexible", "strict"),
    [
        ("so.\n#### 1,234", "1234", 1, 1),
        ("#### $70,000", "70000", 1, 0),
        (r"**Answer: \$18 per day.**", "18", 1, 0),
        ("Q: ... #### 9\nQ: mine.\n#### 18", "18", 1, 1),  # the first mark is a recited example's
        ("Answer: 5 (checked 3 times)", "5", 1, 0),  # the last number is 3
        ("#### -5", "-5", 1, 1),
        ("#### \u22125", "-5", 1, 1),
        ("#### 18.00", "18", 1, 1),
        ("#### 18.", "18", 1, 1),
        ("#### **18**", "18", 1, 0),
        ("#### 18 apples", "18", 1, 1),
        ("#### 180", "18", 0, 0),
        ("#### 1 8", "18", 0, 0),
        (r"The total is \boxed{1{,}234}.", "1234", 0, 0),
        (r"The total is \boxed{\$1,234}.", "1234", 1, 0),
        ("The answer is 7. No, the answer is 8.", "8", 1, 0),
        ("The final answer is: **12** dollars", "12", 1, 0),
        ("#### the total\nThe answer is 4", "4", 1, 0),  # nothing can be read after the mark
        ("Tom has 18 nuts.", "18", 0, 0),
        ("it is 3", "3", 0, 0),
    ],
)
def test_gsm8k(content: str, gold: str, flexible: float, strict: float) -> None:
    assert gsm8k.grade(Response(content), f"Worked out.\n#### {gold}").scores == {"flexible": flexible, "strict": strict}


@pytest.mark.parametrize(
    ("content", "gold", "outcome", "score"),
    [
        ("Answer: B is tempting.\nAnswer: C", "C", SCORED, 1),  # the first match is B
        ("**Answer:** C", "C", SCORED, 1),  # a usual pattern finds nothing
        ("**Answer: (C)**", "C", SCORED, 1),
        ("The answer is C, as a result of b.", "C", SCORED, 1),  # the last letter is b
        ("Answer: C or D", "C", NO_ANSWER, 0),
        ("Answer: (C) and (D)", "C", NO_ANSWER, 0),
        ("Answer: **A**/**B**", "A", NO_ANSWER, 0),
        ("Answer: C or D\nAnswer: D", "D", SCORED, 1),
        ("Answer：Ｃ", "C", SCORED, 1),
        ("答案：C", "C", SCORED, 1),
        ("答案是 C", "C", SCORED, 1),
        ("Antwort: B", "B", SCORED, 1),
        ("Ответ: B", "B", SCORED, 1),
        ("answer: c", "C", SCORED, 1),
        ("The answer is a bit hard to see.", "A", NO_ANSWER, 0),
        ("The answer is not C.", "C", NO_ANSWER, 0),
        (r"The final answer is $\boxed{\text{C}}$", "C", SCORED, 1),
        ("The answer is option B.", "B", SCORED, 1),
        ("Answer: Carbon", "C", NO_ANSWER, 0),
        ("C", "C", NO_ANSWER, 0),
        ("Answer: E", "C", NO_ANSWER, 0),
    ],
)
def test_gpqa(content: str, gold: str, outcome: Outcome, score: float) -> None:
    found = gpqa.grade(Response(content), gold)
    assert (found.outcome, found.scores) == (outcome, {"exact": score})


HASH, HASH12 = "aB3dE5gH7j", "aB3dE5gH7jK2"
POEM = "The river bends beneath the mill where children used to play.\n" * 4
OTHER = "A lantern in the window waits for someone far away tonight.\n" * 4


@pytest.mark.parametrize(
    ("content", "openai", "deepmind"),
    [
        ("{H}{P}", 1, 1),
        ("\n{H}{P}", 0, 1),
        ("{P}", 0, 0),
        ("{h}{P}", 0, 0),  # the string in small letters
        ("Here it is: {H}{P}", 0, 1),
        ("{H}wrong {H}{P}", None, 1),  # the last occurrence counts
    ],
)
def test_mrcr_prefixes(content: str, openai: float | None, deepmind: float) -> None:
    for rule, prefix, right in ((mrcr.grade_openai, HASH, openai), (mrcr.grade_deepmind, HASH12, deepmind)):
        text = content.format(H=prefix, h=prefix.lower(), P=POEM)
        found = rule(Response(text), prefix + POEM, prefix)
        assert found.outcome is SCORED
        assert right is None or found.scores == {"ratio": right}


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
