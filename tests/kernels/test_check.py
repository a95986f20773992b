"""What a build's verdict is, and what is said where the kernels are not to blame."""

import pytest

from validate.kernels import check
from validate.kernels.check import Architecture, Launches
from validate.kernels.compiling import Plan, Result
from validate.kernels.golden import Golden
from validate.kernels.report import H200, render
from validate.verdict import Verdict

KDA, SITU = "kda/KdaSplit/heads=6", "dense_mlp/DenseSitu/batch=1"
MADE = {"profile": "cpu", "vllm": "0.33.0", "nvidia-cutlass-dsl": "4.8.0", "quack-kernels": "0.6.5"}
OLDER, NEWER = {"nvidia-cutlass-dsl": "4.7.0"}, {"vllm": "0.34.0"}
SAME: Result = {"registers": 80, "stack bytes": 0}
OTHER: Result = {"registers": 88, "stack bytes": 0}
ERROR: Result = {"error": "DSLRuntimeError"}
RECORDED = Golden(MADE, {KDA: SAME})


def compared(results: dict[str, Result], made_with: dict[str, str]) -> Architecture:
    found = Architecture("sm_103a", Plan({}, {}), results)
    check._compare(found, RECORDED, MADE | made_with, whole=True)
    return found


@pytest.mark.parametrize(
    ("results", "made_with", "verdict"),
    [
        ({KDA: SAME}, {}, Verdict.PASS),
        ({KDA: OTHER}, {}, Verdict.FAIL),
        ({KDA: OTHER}, NEWER, Verdict.FAIL),
        ({KDA: SAME, SITU: SAME}, {}, Verdict.FAIL),
        ({}, {}, Verdict.FAIL),
        ({KDA: SAME}, OLDER, Verdict.PASS),
        ({KDA: OTHER}, OLDER, Verdict.INCONCLUSIVE),
        ({}, OLDER, Verdict.INCONCLUSIVE),
        ({KDA: SAME, SITU: SAME}, {"profile": "mine"}, Verdict.INCONCLUSIVE),
        ({KDA: OTHER, SITU: SAME}, {"profile": "mine"}, Verdict.FAIL),
        ({SITU: SAME}, {"profile": "mine"} | OLDER, Verdict.INCONCLUSIVE),
        ({KDA: ERROR}, OLDER, Verdict.FAIL),
        ({KDA: ERROR, SITU: SAME}, {"profile": "mine"}, Verdict.FAIL),
    ],
)
def test_the_verdict(results: dict[str, Result], made_with: dict[str, str], verdict: Verdict) -> None:
    assert compared(results, made_with).verdict is verdict


def test_why_a_difference_is_not_held_against_the_kernels() -> None:
    (tools,) = compared({KDA: OTHER}, OLDER).notes
    assert tools.startswith("golden was made with nvidia-cutlass-dsl 4.8.0, this run with 4.7.0: ")
    assert tools.endswith("not held against the kernels")
    (profile,) = compared({KDA: SAME, SITU: SAME}, {"profile": "mine"}).notes
    assert profile.startswith("golden was recorded for profile cpu and does not know 1 of this run's variants: ")
    assert "held against the kernels" not in compared({KDA: OTHER}, NEWER).notes[0]


def test_the_report_says_which_kernels_ran() -> None:
    done = [compared({KDA: SAME, "mla/MlaQuery/batch=1": SAME, "experts/ExpertsKernel/b=1": SAME}, {})]
    text = render(Verdict.PASS, MADE, done, Launches(["5 launches"], Verdict.PASS))
    assert "## Launches: PASS" in text
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in text.splitlines() if line.startswith("| ")}
    assert "| on an H200 (golden/hopper) |" in rows["kda/KdaSplit"]
    assert "| on an H200, scalar variants (golden/hopper) |" in rows["mla/MlaQuery"]
    assert "| no |" in rows["experts/ExpertsKernel"]


def test_what_ran_is_what_golden_knows() -> None:
    from validate.kernels import golden

    known = {golden.split(name)[0] for name in golden.read(golden.path("sm_103a")).variants}
    text = (golden.GOLDEN.parent / "hopper/README.md").read_text(encoding="utf-8")
    assert set(H200) <= known
    assert [kernel for kernel in H200 if f"`{kernel.split('/')[1]}`" not in text] == []
