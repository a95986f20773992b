"""Order, the first proven defect, exit codes, what a message names, and what there is of an interrupted run."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.gate.conftest import Place
from tests.gate.steps import profile, step
from tests.support import Tool
from validate.errors import InputError
from validate.gate import findings, running
from validate.gate.given import Given
from validate.gate.profile import Step
from validate.records import writer
from validate.verdict import Verdict


def test_steps_run_in_order_and_stop_behind_the_first_proven_defect(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    there = place.begin(step("a"), step("b", "INVALID"), step("c", "FAIL"), step("d", "INCONCLUSIVE"))
    code, gate = place.run(there)
    assert code == gate.exit_code == 1
    assert place.ran() == ["PASS", "INVALID", "FAIL"]
    assert [one.verdict for one in gate.steps] == ["PASS", "INVALID", "FAIL", None]
    assert gate.steps[2].reasons == ("FAIL kda/tp16-batch1 emulated-specialized: out rounding 120.8 > 1",)
    said = capsys.readouterr().out
    assert "kda/tp16-batch1 emulated-specialized: out rounding 120.8 > 1" in said
    assert "not run, since c proved a defect" in said
    assert said.endswith(f"FAIL  {there}\n")
    assert "go on with" not in said
    assert place.run(there)[0] == 1  # and it stays so
    assert place.ran() == []


def test_keep_going(place: Place) -> None:
    there = place.begin(step("a", "FAIL"), step("b"), keep_going=True)
    assert place.run(there)[0] == 1
    assert place.ran() == ["FAIL", "PASS"]
    there = place.begin(step("a", "FAIL"), step("b"))
    place.run(there)
    assert place.run(there, keep_going=True)[0] == 1
    assert place.ran() == ["FAIL", "PASS"]


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        (["PASS", "PASS"], 0),
        (["PASS", "INCONCLUSIVE"], 2),
        (["INVALID", "INCONCLUSIVE"], 3),
        (["PASS", "INVALID", "INCONCLUSIVE", "FAIL"], 1),
    ],
)
def test_the_exit_code_is_that_of_the_worst(place: Place, verdicts: list[str], code: int) -> None:
    there = place.begin(*(step(f"s{n}", verdict) for n, verdict in enumerate(verdicts)))
    assert place.run(there)[0] == code
    summary = (there / "summary.md").read_text()
    assert summary.startswith(f"# {Verdict(next(v for v in Verdict if v.exit_code == code))}: gate mine")
    suite = next(ET.parse(there / "junit.xml").getroot().iter("testsuite"))
    counts = [suite.get(name) for name in ("tests", "failures", "errors")]
    wrong = [verdicts.count("FAIL"), verdicts.count("INVALID") + verdicts.count("INCONCLUSIVE")]
    assert counts == [str(count) for count in (len(verdicts), *wrong)]


@pytest.mark.parametrize(
    ("what", "code", "says"),
    [
        ("INVALID", 3, "INVALID kda attestation: 12 of 80 steps ran specialized"),
        ("INCONCLUSIVE", 2, "INCONCLUSIVE kda gsm8k: 9 repeats would decide it"),
        ("PASS,refuses", 3, "error: there is no server at http://x:1"),
        ("PASS,crashes", 3, "ended with exit code 1 and left no record"),
        ("PASS,crashes-late", 3, "ended with exit code 1, and no check of its record failed"),
        ("PASS,silent", 3, "ended with exit code 0 and left no record"),
    ],
)
def test_a_missing_proof_is_named(place: Place, what: str, code: int, says: str) -> None:
    there = place.begin(step("a", what))
    found, gate = place.run(there)
    assert says in " ".join(gate.steps[0].reasons)
    assert found == code
    assert "crashes" not in what or gate.steps[0].reasons[1] == "RuntimeError: no layer says this"
    assert says in (there / "summary.md").read_text()
    assert says in (there / "junit.xml").read_text()


def test_a_step_is_stopped_when_its_budget_is_spent(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    there = place.begin(step("a", "PASS,slow", 0.03), step("b", "PASS"))
    code, gate = place.run(there)
    assert code == 3
    assert place.ran() == ["PASS,slow", "PASS"]
    stopped = gate.steps[0]
    assert (there / "a" / "record" / "kept").exists()  # it was interrupted, not killed
    assert (stopped.verdict, stopped.exit_code) == (Verdict.INVALID, 130)
    assert "ran out of its budget of 0.03 min; go on with: python -c" in stopped.reasons[0]
    assert f"--resume {there}/a/record" in stopped.reasons[0]
    assert place.run(there)[0] == 0  # a second time it goes on with its record
    assert place.calls() == [["PASS,slow", ["--resume", f"{there}/a/record"]]]
    monkeypatch.setattr(running, "GRACE", 0.5)
    there = place.begin(step("a", "PASS,deaf", 0.03))
    code, gate = place.run(there)
    assert (code, gate.steps[0].exit_code) == (3, -signal.SIGKILL)


def test_what_proved_nothing_runs_again_and_nothing_else_does(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    there = place.begin(step("a"), step("b", "INVALID"), step("c", "INCONCLUSIVE"), step("d", "PASS,refuses"))
    assert place.run(there)[0] == 3
    said = capsys.readouterr().out
    assert f"what was not run, or proved nothing, runs with: python -m validate gate --resume {there}\n" in said
    place.ran()
    assert place.run(there)[0] == 3
    assert place.ran() == ["INVALID", "PASS,refuses"]


def test_what_waits_for_servers_goes_on_when_they_are_up(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    both = ["default-url", "specialized-url"]
    there = place.begin(step("a"), step("b", "PASS", needs=both[1:]), step("c", "PASS,arms", needs=both))
    assert place.run(there)[0] == 3
    assert place.ran() == ["PASS"]
    said = capsys.readouterr().out
    assert f"python -m validate gate --resume {there} --specialized-url URL --default-url URL" in said
    code, gate = place.run(there, default_url=("http://d:1", "http://d:2"))
    assert place.calls() == [
        ["PASS,arms", ["--output", f"{there}/c", *(["--default-url", "http://d:1", "--default-url", "http://d:2"])]]
    ]
    assert (code, gate.steps[2].verdict, gate.steps[2].ended) == (3, Verdict.INVALID, False)
    assert gate.steps[2].reasons == ("specialized not recorded yet", "needs --specialized-url, too")
    code, gate = place.run(there, specialized_url=("http://s:1",))
    given = ["--specialized-url", "http://s:1"]
    assert place.calls() == [
        ["PASS", ["--output", f"{there}/b", *given]],
        ["PASS,arms", ["--resume", f"{there}/c/record", *given]],
    ]
    assert code == 0
    assert place.run(there)[0] == 0
    assert place.ran() == []


def test_a_comparison_is_a_record_and_is_not_continued(tmp_path: Path) -> None:
    (tmp_path / "b/compare").mkdir(parents=True)
    (tmp_path / "b/compare/comparison.json").write_text("{}")
    found = findings.record(tmp_path / "b")
    assert found == tmp_path / "b/compare"
    made = Step(name="b", layer="made up", command=("compare", "x"), budget=1.0)
    assert Given().first(made, tmp_path / "b", found)[-2:] == ["--output", str(tmp_path / "b")]


def test_over_ranks_the_record_goes_on_and_is_judged_here(place: Place) -> None:
    there = place.begin(step("a", "PASS", needs=["over-ranks"]))
    ranks = (sys.executable, "-W", "ignore")
    code, gate = place.run(there, over_ranks=ranks)
    again = ["PASS", ["--resume", f"{there}/a/record"]]
    assert place.calls() == [["PASS", ["--output", f"{there}/a"]], again, again]
    assert (code, gate.steps[0].command[0]) == (0, sys.executable)
    there = place.begin(step("a", "FAIL", needs=["over-ranks"]))
    assert place.run(there, over_ranks=ranks)[0] == 1
    assert place.ran() == ["FAIL"]  # a defect that one GPU proves needs no other


def until(there: bool | None = None, *, path: Path) -> None:
    for _ in range(600):
        if path.exists():
            return
        time.sleep(0.1)
    raise AssertionError(f"{path} does not come")


def started(tool: Tool, tmp_path: Path) -> tuple[subprocess.Popen[str], Path]:
    """A gate in a process of its own whose second step is under way."""
    process = tool.start("gate", profile(tmp_path, step("a"), step("b", "PASS,slow"), step("c")))
    until(path=tmp_path / "ran")
    (there,) = tmp_path.glob("runs/*")
    until(path=there / "b" / "record" / "begun.json")
    time.sleep(0.5)
    return process, there


def held(there: Path) -> bool:
    try:
        with writer.alone(there):
            return False
    except InputError:
        return True


def test_killed_and_continued(tool: Tool, tmp_path: Path, place: Place) -> None:
    process, there = started(tool, tmp_path)
    with process:
        process.kill()
    assert held(there)  # the step lives on
    until(path=there / "b" / "record" / "kept")  # the step was told, and has kept its record
    assert "| a | PASS |" in (there / "summary.md").read_text()
    assert place.ran() == ["PASS", "PASS,slow"]
    while held(there):  # by the step, until it has ended
        time.sleep(0.1)
    code, _ = place.run(there)
    assert code == 0
    assert place.calls() == [["PASS,slow", ["--resume", f"{there}/b/record"]], ["PASS", ["--output", f"{there}/c"]]]


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(tool: Tool, tmp_path: Path, place: Place, by: signal.Signals) -> None:
    # A shell that starts the gate in the background has it ignore Ctrl-C: the step must be interrupted all the same.
    before = signal.signal(signal.SIGINT, signal.default_int_handler if by is signal.SIGINT else signal.SIG_IGN)
    try:
        process, there = started(tool, tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    process.send_signal(by)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"interrupted; go on with: python -m validate gate --resume {there.relative_to(tmp_path)}" in out
    assert (there / "b" / "record" / "kept").exists()
    summary = (there / "summary.md").read_text()
    assert summary.startswith("# INVALID")
    assert "| b | not run |" in summary
    place.ran()
    assert place.run(there)[0] == 0
    assert place.ran() == ["PASS,slow", "PASS"]


def test_refusals(place: Place) -> None:
    there = place.begin(step("a"))
    with pytest.raises(InputError, match="holds no run of the gate"):
        place.run(place.folder)
    assert not (place.folder / ".lock").exists()
    text = (there / "gate.json").read_text()
    (there / "gate.json").write_text(text.replace('"source": "', '"source": "0'))
    with pytest.raises(InputError, match="source has changed"):
        place.run(there)
    os.truncate(there / "gate.json", 100)
    with pytest.raises(InputError, match=r"gate\.json: "):
        place.run(there)
