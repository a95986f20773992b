"""All three arms in vLLM's own engine on a CPU, through the command line: killed, resumed, compared. No vLLM, no test."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.evals.running import made_up
from tests.support import ROOT, Tool

pytestmark = pytest.mark.engine


def answered(run: Path, arm: str) -> int:
    path = run / arm / "responses.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_a_run_of_made_up_files_and_practice_is_killed_and_ends(tool: Tool, tmp_path: Path) -> None:
    tool.cwd = ROOT  # the stand-in is named from there
    sets = ("aime25", "gsm8k", "gpqa_diamond", "mrcr_openai")
    data = made_up.data(tmp_path / "data", *sets)
    file = made_up.suite(tmp_path / "mine.toml", *sets, "practice_stories items=40 margin=0.3")
    command = ["evals", str(file), "--data", str(data), "--output", str(tmp_path / "runs")]
    with tool.start(*command, "--arm", "default") as process:  # this process has the engine: what is killed is that
        end = time.monotonic() + 240
        while time.monotonic() < end and process.poll() is None:
            if any(answered(run, "default") >= 40 for run in (tmp_path / "runs").glob("*")):
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    (run,) = (tmp_path / "runs").iterdir()
    before = answered(run, "default")
    assert 40 <= before < 104
    done = tool("evals", "--resume", str(run))
    assert done.returncode in (0, 2), done  # of three items, little can be said
    assert "of 104 responses are recorded" in done.stdout
    assert [answered(run, name) for name in ("default", "default-again", "specialized")] == [104] * 3
    steps = json.loads((run / "specialized" / "steps.json").read_text())
    assert set(steps["by_scene"]) == {*sets, "practice_stories"}
    (comparison,) = run.glob("*/comparison.json")
    verdicts = {check["name"]: check["verdict"] for check in json.loads(comparison.read_text())["checks"]}
    assert verdicts["attestation"] == verdicts["complete"] == verdicts["same engine"] == "PASS"
    assert verdicts["score of practice_stories"] == "PASS"
    for path in (path for path in run.rglob("*") if path.is_file()):
        assert made_up.SECRET.encode() not in path.read_bytes(), path
    assert made_up.SECRET not in done.stdout + done.stderr
    held = subprocess.run(["grep", "-rl", "What is 1+2?", str(run)], capture_output=True, text=True).stdout
    assert "samples_gsm8k.jsonl" in held  # what is not secret is there
