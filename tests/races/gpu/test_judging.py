"""From repeats to verdicts: a control that is right makes a trial worthless, and a hang is a verdict."""

import pytest

from validate.races.gpu import judging
from validate.races.gpu.judging import Repeat, attempt
from validate.races.gpu.record import Attempt, Report, Sanitized, Trial, Tried
from validate.verdict import Verdict

TRIAL = Trial(kernel="kda", sizes={"tp": 16, "rows": 4}, adversary="words", fault="kda-wait")
RIGHT, WRONG = Repeat(None, 0), Repeat("3 of 8 bytes of out differ", 0)


def test_repeats_are_counted_and_the_first_wrong_one_is_told() -> None:
    made = attempt([RIGHT, Repeat(None, 7), WRONG, WRONG], None, None)
    assert (made.repeats, made.unequal, made.unarmed, made.first, made.hung) == (4, 2, 1, False, False)
    assert made.detail == "7 words are not armed again"
    assert made.wrong
    assert judging.outcome(made) == "2 of 4 unequal, 1 of 4 not armed again"


def test_a_wrong_first_launch_is_named() -> None:
    assert attempt([WRONG, RIGHT], None, None).first
    assert not attempt([RIGHT, WRONG], None, None).first


@pytest.mark.parametrize(
    ("hung", "error", "said"),
    [("did not end within 5 s", None, "hung after 1"), (None, "CUDA error: illegal access", "CUDA error after 1")],
)
def test_how_it_ended_is_wrong_without_an_unequal_repeat(hung: str | None, error: str | None, said: str) -> None:
    made = attempt([RIGHT], hung, error)
    assert made.wrong
    assert judging.outcome(made) == said
    assert made.detail == (hung or error)


FINE, BAD = Attempt(repeats=200), Attempt(repeats=200, unequal=3, detail="it differs")
STUCK = Attempt(repeats=2, hung=True, detail="did not end")


@pytest.mark.parametrize(
    ("sound", "control", "wanted"),
    [
        (FINE, BAD, Verdict.PASS),
        (FINE, STUCK, Verdict.PASS),
        (FINE, FINE, Verdict.INCONCLUSIVE),
        (FINE, None, Verdict.INVALID),
        (None, None, Verdict.INVALID),
        (BAD, BAD, Verdict.FAIL),
        (STUCK, None, Verdict.FAIL),
        (Attempt(repeats=200, unarmed=1), BAD, Verdict.FAIL),
    ],
)
def test_verdicts(sound: Attempt | None, control: Attempt | None, wanted: Verdict) -> None:
    tried = Tried(trial=TRIAL, sound=sound, control=control, lost="exit code 1: Killed")
    assert judging.verdict(tried) is wanted
    if wanted is Verdict.INVALID:
        assert "no result: exit code 1: Killed" in judging.why(tried)
    if wanted is Verdict.INCONCLUSIVE:
        assert "this proves nothing" in judging.why(tried)


def test_a_right_control_proves_nothing_either_way_where_no_kernel_could_be_wrong() -> None:
    shut = Attempt(repeats=200, shut="this GPU waits for all")
    tried = Tried(trial=TRIAL, sound=FINE, control=shut)
    assert judging.verdict(tried) is None
    assert judging.why(tried).endswith("/kda-wait: not judged: this GPU waits for all")
    assert judging.verdict(Tried(trial=TRIAL, sound=BAD, control=shut)) is Verdict.FAIL
    wrong = BAD.model_copy(update={"shut": shut.shut})
    assert judging.verdict(Tried(trial=TRIAL, sound=FINE, control=wrong)) is Verdict.PASS


def test_a_control_that_was_launched_too_late_is_told() -> None:
    tried = Tried(trial=TRIAL, sound=FINE, control=Attempt(repeats=200, late=150))
    assert "right, too, in 200 repeats, of which 150 were launched too late: this" in judging.why(tried)


@pytest.mark.parametrize(("late", "wanted"), [(100, Verdict.PASS), (101, Verdict.INCONCLUSIVE)])
def test_a_kernel_that_was_mostly_launched_too_late_does_not_pass(late: int, wanted: Verdict) -> None:
    tried = Tried(trial=TRIAL, sound=Attempt(repeats=200, late=late), control=BAD)
    assert judging.verdict(tried) is wanted
    assert f"right in 200 repeats, but {late} came too late" in judging.why(tried)


def report(severity: str) -> Report:
    """An explained one's severity has a star."""
    why = "a known one" if severity.endswith("*") else None
    made = {"severity": severity.rstrip("*"), "text": "it says", "kernel": "kernel_cutlass_x", "count": 2, "explained": why}
    return Report.model_validate(made)


@pytest.mark.parametrize(
    ("fault", "severities", "lost", "wanted"),
    [
        (None, [], None, Verdict.PASS),
        (None, ["warning"], None, Verdict.INCONCLUSIVE),
        (None, ["warning", "error"], None, Verdict.FAIL),
        (None, [], "Device not supported", Verdict.INVALID),
        (None, ["warning*"], None, Verdict.PASS),
        (None, ["warning*", "warning"], None, Verdict.INCONCLUSIVE),
        ("kda-norms", ["warning"], None, Verdict.PASS),
        ("kda-norms", ["warning*"], None, Verdict.INCONCLUSIVE),
        ("kda-norms", [], None, Verdict.INCONCLUSIVE),
    ],
)
def test_verdicts_of_the_sanitizer(fault: str | None, severities: list[str], lost: str | None, wanted: Verdict) -> None:
    reports = tuple(map(report, severities))
    one = Sanitized(tool="racecheck", kernel="kda", sizes={"rows": 4}, fault=fault, reports=reports, lost=lost)
    assert judging.sanitized_verdict(one) is wanted
    assert judging.sanitized_why(one)
