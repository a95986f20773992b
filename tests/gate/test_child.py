"""What a step's process is told when the gate is killed: the signal that its command listens to."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import ROOT

# As srun does: Ctrl-C does not end it.
RANKS = """
import pathlib, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path("ended").touch(), sys.exit(143)))
pathlib.Path("up").touch()
time.sleep(60)
"""
GATE = """
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-m", "validate.gate.child", str(os.getpid()), sys.argv[1], sys.executable, "-c", sys.argv[2]])
time.sleep(60)
"""


def until(path: Path, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.05)
    return path.exists()


@pytest.mark.parametrize(("by", "ends"), [(signal.SIGTERM, True), (signal.SIGINT, False)])
def test_a_killed_gate_ends_what_listens_to_the_signal(tmp_path: Path, by: signal.Signals, ends: bool) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    gate = subprocess.Popen(
        [sys.executable, "-c", GATE, str(int(by)), RANKS], cwd=tmp_path, env=environment, start_new_session=True
    )
    try:
        assert until(tmp_path / "up", 30)
        gate.kill()
        gate.wait()
        assert until(tmp_path / "ended", 20 if ends else 3) is ends
    finally:
        os.killpg(gate.pid, signal.SIGKILL) if not ends else None
