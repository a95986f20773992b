"""Whole runs in processes of their own: verdicts, interruption, resumption, a worker that dies."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT, SMALL, Tool

FILES = {"manifest.json", "measurements.jsonl", "junit.xml", "summary.md", "SHA256SUMS", ".lock"}
MANY = ("-k", SMALL, "--seeds", "20", "-n", "2")  # enough to be interrupted


def only_run(tool: Tool) -> Path:
    (run,) = (tool.cwd / "runs").iterdir()
    return run


def measured(run: Path) -> list[dict[str, Any]]:
    """The lines of a run but for what a clock said."""
    lines = [json.loads(line) for line in (run / "measurements.jsonl").read_text().splitlines()]
    for line in lines:
        del line["seconds"]
    return lines


def started(tool: Tool, cases: int) -> tuple[subprocess.Popen[str], Path]:
    """A run that has recorded so many cases."""
    process = tool.start("numerics", *MANY)
    for _ in range(1200):
        time.sleep(0.1)
        found = list(tool.cwd.glob("runs/*/measurements.jsonl"))
        if found and len(found[0].read_text().splitlines()) >= 2 * cases:
            return process, found[0].parent
    process.kill()
    raise AssertionError(process.communicate())


def test_sound_paths_pass(tool: Tool) -> None:
    done = tool("numerics", "-k", SMALL, "-n", "1")
    assert done.returncode == 0, done
    assert done.stderr == ""
    run = only_run(tool)
    assert {path.name for path in run.iterdir()} == FILES
    manifest = json.loads((run / "manifest.json").read_text())
    assert (manifest["verdict"], manifest["exit_code"], manifest["stages"]) == ("PASS", 0, ["kda"])
    assert {line["subject"] for line in measured(run)} == {"emulated-default", "emulated-specialized"}
    assert tool("show", str(run)).stdout.startswith("# PASS")


def test_a_persons_pytest_settings_have_no_say(tool: Tool) -> None:
    (tool.cwd / "pytest.ini").write_text("[pytest]\naddopts = --collect-only\n")
    tool.environment["PYTEST_ADDOPTS"] = "--maxfail=0 --collect-only"
    assert tool("numerics", "-k", SMALL, "-n", "1").returncode == 0


def test_a_planted_fault_fails_the_run_and_names_the_command(tool: Tool) -> None:
    fault = "kda.norm-over-all-heads"
    done = tool("numerics", "-k", SMALL, "-n", "1", "--plant", fault)
    assert done.returncode == 1, done
    rerun = next(line.split("rerun: ")[1] for line in done.stdout.splitlines() if "rerun:" in line)
    assert rerun.startswith(f"nox -s numerics -- --profile cpu -k '{SMALL}")
    assert rerun.endswith(f"--plant {fault}")
    assert "<failure" in (only_run(tool) / "junit.xml").read_text()


def test_the_matrix_tells_found_from_missed(tool: Tool) -> None:
    """Without verify steps there is no accepted count to get wrong: no case can find that fault."""
    small = (ROOT / "validate/profiles/cpu.toml").read_text().splitlines()
    small = [line for line in small if not line.startswith(("tp", "batches", "queries"))]
    (tool.cwd / "small.toml").write_text("\n".join([*small, "tp = [16]", "batches = [1, 2]", "queries = []"]))
    keyword = "kda.gate-before-norm or kda.accepted-off-by-one"
    done = tool("numerics", "--faults", "-k", keyword, "-n", "2", "--profile", "small.toml")
    assert done.returncode == 1, done
    rows = [json.loads(row) for row in (only_run(tool) / "faults.jsonl").read_text().splitlines()]
    assert {row["fault"]: row["found"] for row in rows} == {
        "kda.gate-before-norm": True,
        "kda.accepted-off-by-one": False,
    }
    assert "1 of 2 planted faults found" in tool("show", str(only_run(tool))).stdout


def test_a_run_that_is_terminated_keeps_what_it_has_and_leaves_nothing_behind(tool: Tool) -> None:
    scratch = tool.cwd / "scratch"
    scratch.mkdir()
    tool.environment["TMPDIR"] = str(scratch)
    process, run = started(tool, cases=2)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (out, err)
    assert f"--resume runs/{run.name}" in out
    assert err == ""
    assert {path.name for path in run.iterdir()} == FILES
    assert not list(scratch.iterdir())


def test_interrupted_then_resumed_is_as_if_never_interrupted(tool: Tool, tmp_path_factory: pytest.TempPathFactory) -> None:
    process, run = started(tool, cases=3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (out, err)
    assert f"--resume runs/{run.name}" in out
    assert err == ""
    kept = measured(run)
    assert len(kept) >= 6
    assert json.loads((run / "manifest.json").read_text())["verdict"] is None
    assert (run / "summary.md").read_text().startswith("# INVALID")

    assert "another keyword" in tool.refused("numerics", "--resume", str(run), "-k", "mla")
    with (run / "measurements.jsonl").open("a") as file:
        file.write('{"case": "kda/')  # what a kill in mid-write leaves
    resumed = tool("numerics", "--resume", str(run), "-n", "2")
    assert resumed.returncode == 0, resumed

    other = Tool(tmp_path_factory.mktemp("whole"))
    assert other("numerics", *MANY).returncode == 0
    assert measured(run) == measured(only_run(other))
    assert tool("diff", str(only_run(other)), str(run)).returncode == 0


def test_a_worker_that_dies_is_an_invalid_case_by_name(tool: Tool) -> None:
    process, run = started(tool, cases=2)
    workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(workers[0]), signal.SIGKILL)  # what the kernel does when memory runs out
    out, err = process.communicate(timeout=200)
    assert process.returncode == 3, (out, err)
    assert err == ""
    lost = [line for line in measured(run) if line.get("error")]
    assert {line["case"] for line in lost} == {lost[0]["case"]}
    assert "crashed" in lost[0]["error"]
    assert f"INVALID emulated-default on {lost[0]['case']}" in out
    assert "<error" in (run / "junit.xml").read_text()
