"""Keywords and covering subsets."""

import pytest

from validate.errors import InputError
from validate.keywords import matches
from validate.numerics import judge
from validate.numerics.case import Case
from validate.numerics.selection import cover, select
from validate.profiles import load

CASES = [Case("kda", {"tp": tp, "batch": batch}, inputs, 1) for tp in (8, 16) for batch in (1, 2) for inputs in "ab"]


@pytest.mark.parametrize(
    ("expression", "name", "expected"),
    [
        ("kda", "kda/tp8/a/s1", True),
        ("mla or kda", "kda/tp8/a/s1", True),
        ("kda and tp16", "kda/tp8/a/s1", False),
        ("kda and not tp16", "kda/tp8/a/s1", True),
        ("mla and tp8 or kda", "kda/tp8/a/s1", True),
    ],
)
def test_expressions(expression: str, name: str, expected: bool) -> None:
    assert matches(expression, name) is expected


def test_a_whole_id_selects_that_case_alone() -> None:
    cases = [*CASES, Case("kda", {"tp": 8, "batch": 1}, "a", 10)]
    assert select(cases, CASES[0].id) == CASES[:1]


def test_nothing_selected_is_refused() -> None:
    with pytest.raises(InputError, match="none of the 8"):
        select(CASES, "mla")


def test_a_cover_meets_every_size_and_input_with_few_cases() -> None:
    chosen = cover(CASES)
    assert {case.sizes["tp"] for case in chosen} == {8, 16}
    assert {case.sizes["batch"] for case in chosen} == {1, 2}
    assert {case.inputs for case in chosen} == {"a", "b"}
    assert len(chosen) == 2


def test_case_ids_are_unique() -> None:
    ids = [case.id for case in judge.cases(load("cpu"))]
    assert len(ids) == len(set(ids))
