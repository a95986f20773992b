"""A recording that is killed at any moment goes on, and ends as one that was not."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lm_eval")

from evals.records import folder as records
from tests.evals.running import made_up
from tests.support import ROOT

KILLS = 10


def start(file: Path, there: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.evals.running.killed", str(file), str(there)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def lines(there: Path) -> int:
    path = there / records.RESPONSES
    return path.read_bytes().count(b"\n") if path.exists() else 0


def result(there: Path) -> dict[Any, Any]:
    return {one.key: one.model_dump(exclude={"seconds"}) for one in records.responses(there)}


def test_killed_ten_times(tmp_path: Path) -> None:
    file = made_up.suite(tmp_path / "mine.toml", "practice_integers items=60", "practice_choices items=60")
    draws, there = random.Random(0), tmp_path / "killed"
    for kill in range(KILLS):
        process, before = start(file, there), lines(there)
        wanted = before + draws.randrange(1, 240 // KILLS)
        end = time.monotonic() + 120
        while lines(there) < wanted and time.monotonic() < end:
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert before < lines(there) < 240, kill
    assert start(file, there).wait(120) == 0
    assert start(file, tmp_path / "whole").wait(120) == 0
    assert len(result(there)) == 240
    assert result(there) == result(tmp_path / "whole")
    killed, whole = records.steps(there), records.steps(tmp_path / "whole")
    assert killed
    assert whole
    assert killed.by_scene.keys() == whole.by_scene.keys()
    results = [(folder / "results.json").read_text().partition('"group_subtasks"')[0] for folder in (there, tmp_path / "whole")]
    assert results[0] == results[1]
