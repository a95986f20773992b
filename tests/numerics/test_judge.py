"""One case from inputs to verdicts."""

import pytest

from validate.model.call import Call
from validate.numerics.case import Case
from validate.numerics.judge import judge
from validate.paths.emulated import SPECIALIZED, Emulated

CASE = Case("final_norm", {"batch": 1}, "trained", 0)


class WritesItsInput(SPECIALIZED["final_norm"]):  # type: ignore[misc, valid-type]
    def __call__(self, call: Call) -> None:
        super().__call__(call)
        call.inputs["x"].zero_()


class DoesNothing:
    def __call__(self, call: Call) -> None:
        pass


def failed(stage: type) -> set[tuple[str, str]]:
    subject = Emulated("specialized", {"final_norm": stage}, "under-test")
    judgement = judge(CASE, [Emulated("default"), subject])[1]
    return {(m.tensor, m.check) for m in judgement.measurements if not m.passed}


def test_a_sound_subject_passes() -> None:
    assert not failed(SPECIALIZED["final_norm"])  # type: ignore[arg-type]


def test_a_subject_may_not_write_its_inputs() -> None:
    assert ("x", "complete") in failed(WritesItsInput)


@pytest.mark.parametrize("check", ["complete", "rounding"])
def test_a_subject_that_returns_early_fails(check: str) -> None:
    assert ("out", check) in failed(DoesNothing)
