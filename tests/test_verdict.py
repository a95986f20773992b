"""Four verdicts: their exit codes, and which one wins."""

import pytest

from validate.verdict import Verdict, worst


def test_exit_codes() -> None:
    assert [verdict.exit_code for verdict in Verdict] == [0, 1, 2, 3]


def test_nothing_judged_is_invalid_not_pass() -> None:
    assert worst([]) is Verdict.INVALID


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ("PASS PASS", "PASS"),
        ("PASS INCONCLUSIVE", "INCONCLUSIVE"),
        ("INCONCLUSIVE INVALID PASS", "INVALID"),
        ("INVALID FAIL PASS", "FAIL"),
    ],
)
def test_a_defect_outranks_a_gap(verdicts: str, expected: str) -> None:
    assert worst(map(Verdict, verdicts.split())) is Verdict(expected)
