"""Cases over ranks, by torchrun: eight processes on the CPU, and what becomes of a run when one of them fails."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from rich.console import Console

from tests.support import ROOT, Tool, in_sessions
from validate.errors import InputError
from validate.numerics import judge, together
from validate.numerics import over_ranks as added
from validate.numerics.case import Case
from validate.numerics.session import Session
from validate.paths import Broken, Lost
from validate.paths.group import Group, combined
from validate.paths.vllm import BY_TORCHRUN
from validate.records import folder as records
from validate.records.model import Line

KEYWORD = "o_proj/tp8-batch1-regime1- and trained or o_proj/tp8-batch3-regime3- and trained"  # write0 and write1
SUBJECT = "vllm-specialized"


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose o-projection waits for its ranks."""
    tool = Tool(tmp_path_factory.mktemp("alone"))
    done = tool("numerics", "-k", KEYWORD, "-n", "1")
    assert done.returncode == 0, done.stderr
    run = next(tool.cwd.glob("runs/*"))
    lines = records.read_lines(run)
    waiting = {"subject": SUBJECT, "missing": f"{BY_TORCHRUN} 8 ranks", "measurements": ()}
    lines += [line.model_copy(update=waiting) for line in lines if line.subject == "emulated-specialized"]
    records.write_lines(run / records.MEASUREMENTS, lines)
    return run


@pytest.fixture
def run(alone: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    target = tmp_path / "run"
    target.mkdir()
    for file in alone.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    return target


def over_ranks(run: Path, restarts: int = 0, nodes: int = 1, **environment: str) -> subprocess.CompletedProcess[str]:
    """Of several nodes, as torchrun sees them, the one that ended first; all must end alike."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", f"--nnodes={nodes}", f"--nproc-per-node={8 // nodes}"]
    command += [f"--max-restarts={restarts}", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{port}"]
    command += [str(ROOT / "tests/numerics/over_gloo.py"), "numerics", "--resume", str(run)]
    given = Tool(run.parent).environment | {"OMP_NUM_THREADS": "1"} | environment
    return in_sessions([command] * nodes, given, run.parent, timeout=480)


def test_what_is_recorded_says_which_cases_wait_for_the_ranks(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is built to find that out; one that is not recorded is."""
    lines = [line for line in records.read_lines(run) if line.subject == SUBJECT]
    cases = [Case(line.stage, line.sizes, line.inputs, line.seed) for line in lines]
    other = [line.model_copy(update={"missing": "needs SM100"}) for line in lines[:1]]
    manifest = records.read_manifest(run)
    session = Session(run, manifest, cases, 1, Console(), [*other, *lines[1:-1]], 0.0)
    built: list[str] = []
    monkeypatch.setattr(judge, "build", lambda case: built.append(case.id))
    monkeypatch.setattr(together, "wanted", lambda *_: True)
    group = cast("Group", SimpleNamespace(size=8))
    assert [task.case for task in added.wanted(session, group)] == [case.id for case in cases[1:]]
    assert built == [cases[-1].id]


def by_itself(run: Path) -> subprocess.CompletedProcess[str]:
    """The verdict of the whole record."""
    command = [sys.executable, str(ROOT / "tests/numerics/over_gloo.py"), "numerics", "--resume", str(run)]
    return subprocess.run(command, env=Tool(run.parent).environment, cwd=run.parent, capture_output=True, text=True, timeout=240)


def own_lines(run: Path) -> Iterator[Line]:
    return (line for line in records.read_lines(run) if line.subject == SUBJECT)


def test_the_ranks_add_to_the_record_and_the_verdict_is_of_the_whole(run: Path) -> None:
    before = len(records.read_lines(run))
    done = over_ranks(run)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = list(own_lines(run))
    assert len(records.read_lines(run)) == before
    assert lines
    assert all(line.judged and not line.failures for line in lines)
    assert {"ranks", "repeatable"} <= {m.check for line in lines for m in line.measurements}
    after = by_itself(run)
    assert after.returncode == 0, after.stdout + after.stderr
    assert "PASS" in after.stdout


def test_a_rank_that_differs_fails(run: Path) -> None:
    assert over_ranks(run, FAULT="wrong", FAULT_CASE="write0").returncode == 0
    failed = {m.check for line in own_lines(run) for m in line.failures}
    assert "ranks" in failed
    assert by_itself(run).returncode == 1


def test_a_rank_that_writes_its_inputs_fails(run: Path) -> None:
    assert over_ranks(run, FAULT="writes", FAULT_CASE="write0").returncode == 0
    failed = {(m.tensor, m.check) for line in own_lines(run) for m in line.failures}
    assert failed == {("local", "complete")}


@pytest.mark.parametrize(("fault", "said"), [("raises", "no such kernel"), ("alone", "out of memory")])
def test_a_rank_that_raises_is_an_error_of_the_case_that_stays_and_the_others_go_on(run: Path, fault: str, said: str) -> None:
    done = over_ranks(run, FAULT=fault, FAULT_CASE="write0")
    assert done.returncode == 0, done.stdout + done.stderr
    for _ in range(2):
        errors = [line.error for line in own_lines(run) if line.error]
        assert errors
        assert set(errors) == {f"RuntimeError: rank 3: ValueError: {said}"}
        assert any(line.measurements for line in own_lines(run))
        assert by_itself(run).returncode == 3


def test_a_rank_that_cannot_begin_is_an_error_in_one_line_before_any_case(run: Path) -> None:
    done = over_ranks(run, FAULT="refuses")
    assert done.returncode != 0
    assert done.stderr.count("error: rank 3: vLLM is not installed\n") == 1
    assert not any(line.error or line.measurements for line in own_lines(run))


@pytest.mark.parametrize(("fault", "said"), [("lost", "rank 3: did not end within 20 s"), ("dies", "a rank's process ended")])
def test_a_rank_that_is_lost_is_a_verdict_and_torchrun_goes_on_behind_it(run: Path, fault: str, said: str) -> None:
    faulty = sum("write0" in line.case for line in own_lines(run))
    done = over_ranks(run, restarts=faulty, nodes=2, FAULT=fault, FAULT_CASE="write0")
    assert done.returncode == 0, done.stdout + done.stderr
    by_itself(run)
    for line in own_lines(run):
        if "write0" in line.case:
            assert said in (line.error or line.failures[0].detail)
        else:
            assert line.measurements
            assert not line.failures


def test_a_rank_that_fails_while_others_wait_for_it_in_a_collective_ends_the_case_for_all(run: Path) -> None:
    faulty = sum("write0" in line.case for line in own_lines(run))
    done = over_ranks(run, restarts=faulty, FAULT="apart", FAULT_CASE="write0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.count("error: ValueError: out of memory; and another rank's process") == faulty
    for line in own_lines(run):
        assert ("a rank's process ended" in (line.error or "")) == ("write0" in line.case)
        assert line.error or (line.measurements and not line.failures)


def test_what_is_refused_is_refused_again_however_often_torchrun_starts_it(run: Path) -> None:
    """The fault is of the first start only: the later ones would judge."""
    done = over_ranks(run, restarts=2, FAULT="refuses")
    assert done.returncode != 0
    assert done.stderr.count("error: rank 3: vLLM is not installed\n") == 3
    assert not any(line.error or line.measurements for line in own_lines(run))


def test_a_run_that_cannot_be_added_to_is_refused_in_one_line(run: Path) -> None:
    (run / "measurements.jsonl").write_text("{}\n")
    done = over_ranks(run)
    assert done.returncode != 0
    assert "measurements.jsonl, line 1" in done.stderr
    assert "[rank" not in done.stderr


def test_other_code_on_a_rank_is_refused_before_a_case_begins(run: Path) -> None:
    before = records.read_lines(run)
    done = over_ranks(run, FAULT="other code")
    assert done.returncode != 0
    assert "error: the source on rank 3 are not those on rank 0: another, not " in done.stderr
    assert "[rank" not in done.stderr
    assert [line for line in records.read_lines(run) if line.measurements] == [line for line in before if line.measurements]


def test_processes_without_a_run_to_add_to_are_refused(tool: Tool) -> None:
    tool.environment["WORLD_SIZE"] = "16"
    assert "named by --resume" in tool.refused("numerics", "-k", "kda")


def test_a_group_that_torchrun_did_not_start_is_refused(tool: Tool, record: Path) -> None:
    tool.environment["WORLD_SIZE"] = "16"
    assert "WORLD_SIZE is set, but not RANK" in tool.refused("numerics", "--resume", str(record))


def test_what_went_wrong_on_several_ranks_is_said_once() -> None:
    lost, broken, error = Lost(3, "no end"), Broken("out", "complete", 2, "2 rows"), RuntimeError("no kernel")
    assert combined([None, None]) is None
    both = combined([lost, broken, None, error, lost])
    assert isinstance(both, Lost)
    assert both.count == 6
    assert str(both) == "rank 0: no end; rank 1: 2 rows; rank 3: no kernel; rank 4: no end"
    assert isinstance(combined([broken, error]), RuntimeError)
    refused = combined([InputError("no vLLM")] * 2)
    assert isinstance(refused, InputError)
    assert str(refused) == "every rank: no vLLM"
    assert isinstance(combined([InputError("no vLLM"), error]), RuntimeError)
    worst = combined([None, broken, broken])
    assert isinstance(worst, Broken)
    assert (worst.tensor, worst.check, worst.count) == ("out", "complete", 4)
