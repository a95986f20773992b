"""What holds for any content."""

import string
import time
from decimal import Decimal
from difflib import SequenceMatcher

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.grading import aime25, boxed, gpqa, gsm8k, mrcr
from evals.grading.response import MARKERS, Outcome, Response

RULES = (
    lambda content: aime25.grade(Response(content), "7"),
    lambda content: gsm8k.grade(Response(content), "7"),
    lambda content: gpqa.grade(Response(content), "B"),
    lambda content: mrcr.grade_openai(Response(content), "Hx3text", "Hx3"),
    lambda content: mrcr.grade_deepmind(Response(content), "Hx3text", "Hx3"),
)
# Pieces that the rules look for, and text between them.
PIECES = (
    "\\boxed{",
    "}",
    "{",
    "\\text{",
    "####",
    "Answer",
    "answer is",
    ":",
    "：",
    "答案",
    "A",
    "B",
    "or",
    "\\",
    "$",
    ",",
    ".",
    "-",
    "7",
    "70",
    "\n",
    " ",
    "Hx3",
)
contents = st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=30).map("".join)
quiet = st.text(string.ascii_lowercase + " .,\n", max_size=60).filter(lambda text: "answer" not in text)


@pytest.mark.parametrize("rule", RULES)
@given(content=contents)
def test_any_content_gets_a_grade_between_0_and_1(rule, content: str) -> None:
    found = rule(content)
    assert all(0 <= score <= 1 for score in found.scores.values())
    assert found.outcome is Outcome.SCORED or not any(found.scores.values())
    assert (found.outcome is Outcome.EMPTY) == (not content.strip())


@given(st.integers(0, 999), quiet, quiet, st.integers(0, 5))
def test_aime_finds_the_integer_whatever_is_around_it(number: int, before: str, after: str, zeros: int) -> None:
    content = f"{before}\\boxed{{5}} {before} $\\boxed{{\\text{{ {'0' * zeros}{number} }}}}$ {after}"
    assert aime25.grade(Response(content), str(number)).scores == {"exact": 1}
    assert aime25.grade(Response(content), str((number + 1) % 1000)).scores == {"exact": 0}


@given(st.text(string.ascii_letters + "{}\\ ", max_size=40), quiet)
def test_what_is_in_the_last_box_is_found_however_deep(inner: str, after: str) -> None:
    depth, sound = 0, not inner.endswith("\\")
    escaped = False
    for character in inner:
        if not escaped:
            depth += (character == "{") - (character == "}")
        escaped = character == "\\" and not escaped
        sound &= depth >= 0
    if inner and sound and depth == 0 and not escaped and boxed.BOX not in inner:
        assert boxed.last(f"\\boxed{{1}} {boxed.BOX}{inner}}} {after}") == inner


@given(st.decimals(-(10**9), 10**9, places=2), st.sampled_from(["", "$", "\\$", "€ ", "**"]), quiet)
def test_gsm8k_reads_a_number_however_it_is_written(number: Decimal, sign: str, after: str) -> None:
    content = f"#### 3 and so\n#### {sign}{number:,}\n{after}"
    found = gsm8k.grade(Response(content), f"{number:f}").scores
    assert found == {"flexible": 1, "strict": not sign}
    assert gsm8k.grade(Response(content), f"{number + 1:f}").scores["flexible"] == 0


@given(quiet)
def test_without_a_declaration_there_is_no_answer(content: str) -> None:
    for rule in RULES[:3]:
        assert rule(content).outcome in (Outcome.NO_ANSWER, Outcome.EMPTY)


@given(
    st.sampled_from("ABCD"),
    st.sampled_from("ABCD"),
    quiet,
    st.sampled_from(["Answer: {}", "**Answer:** ({})", "The answer is {}.", "答案：{}"]),
)
def test_gpqa_takes_the_last_declaration(first: str, last: str, between: str, declares: str) -> None:
    content = f"Answer: {first}\n{between}\n{declares.format(last)}\n"
    assert gpqa.declared(content) == last


@given(st.sampled_from("ABCD"), st.sampled_from("ABCD"), st.sampled_from([" or ", "/", ", ", " and ", " & "]))
def test_gpqa_two_letters_are_no_answer(first: str, second: str, joined: str) -> None:
    assert gpqa.declared(f"Answer: {first}{joined}{second}") is None


@given(st.text(max_size=300), st.text(max_size=300))
def test_mrcr_is_difflibs_ratio(content: str, target: str) -> None:
    if any(marker in content for marker in MARKERS):
        return
    openai = mrcr.grade_openai(Response("Hx3" + content), "Hx3" + target, "Hx3").scores["ratio"]
    assert openai == SequenceMatcher(None, content, target).ratio()
    if "Hx3" not in content:
        deepmind = mrcr.grade_deepmind(Response("Hx3" + content), "Hx3" + target, "Hx3").scores["ratio"]
        assert deepmind == SequenceMatcher(None, target.strip(), content.strip()).ratio()


@pytest.mark.parametrize("rule", RULES[:3])
def test_long_contents_take_linear_time(rule) -> None:
    n = 200_000
    start = time.process_time()
    for begin in ("", "Answer:", "answer", "#### 1", "####", "\\boxed{"):
        for piece in (
            "\\boxed{",
            "\\boxed",
            "answer is ",
            "Answer: ",
            "\n",
            " ",
            "*",
            ",111",
            ",1",
            "9",
            "\\",
            "}",
            "\\text{",
            "=",
            "x ",
        ):
            rule(begin + piece * (n // len(piece)))
    assert time.process_time() - start < 60  # 10 s on a slow core; any quadratic step takes minutes
