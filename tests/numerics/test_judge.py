"""One case from inputs to verdicts."""

import pytest

from validate.model.call import Call
from validate.numerics.case import Case
from validate.numerics.judge import judge
from validate.paths import Broken, Lost
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


class Kernel(Emulated):
    """The default path under a kernel's name, off by a factor."""

    def __init__(self, factor: float) -> None:
        super().__init__("default", name="vllm-default")
        self._factor = factor

    def run(self, call: Call) -> None:
        super().run(call)
        call.outputs["out"].mul_(self._factor)


def test_like_is_compared_with_like() -> None:
    judgements = judge(CASE, [Kernel(1.5), Emulated("default"), Emulated("specialized")])
    assert [j.subject for j in judgements] == ["vllm-default", "emulated-default", "emulated-specialized"]
    checks = [{m.check: m for m in j.measurements} for j in judgements]
    assert "no_worse" not in checks[0]
    assert "no_worse" not in checks[1]
    assert "emulated-default" in checks[2]["no_worse"].detail
    assert checks[0]["rounding"].error == pytest.approx(0.5, rel=0.05)


class Breaks(Emulated):
    def __init__(self, how: Broken) -> None:
        super().__init__("default", name="vllm-default")
        self._how = how

    def again(self, call: Call) -> None:
        raise self._how


@pytest.mark.parametrize(
    ("how", "check", "others"),
    [
        (Broken("mailbox", "complete", 3, "3 words are not armed again"), "complete", ["vllm-default", "emulated-default"]),
        (Lost(7, "did not end within 20 s; fragments still armed: slot 2: 7 of 64"), "finished", ["emulated-default"]),
    ],
)
def test_what_breaks_is_a_verdict_and_a_lost_gpu_the_last_kernel(how: Broken, check: str, others: list[str]) -> None:
    first, *rest = judge(CASE, [Breaks(how), Kernel(1.0), Emulated("default")])
    (measured,) = first.measurements
    assert (measured.check, measured.figure, measured.passed, measured.detail) == (check, how.count, False, str(how))
    assert [judgement.subject for judgement in rest] == others
