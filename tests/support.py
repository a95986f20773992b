"""The command line in a process of its own, and records made by hand."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from validate.records.model import Line, Measured

ROOT = Path(__file__).parents[1]
Edit = Callable[[str, dict[str, str]], Path]  # makes a copy of vLLM's files with replacements in one of them
SMALL = "kda/tp16-batch1-"  # a few cases of one row


def in_sessions(
    commands: list[list[str]], environment: dict[str, str], cwd: Path, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Runs commands that start others, side by side; all must end alike, and nothing outlives them."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "start_new_session": True, "text": True}
    started = [subprocess.Popen(command, env=environment, cwd=cwd, **pipes) for command in commands]
    try:
        said = [process.communicate(timeout=timeout) for process in started]
    finally:
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    (code,) = {process.returncode for process in started}
    return subprocess.CompletedProcess(commands[0], code, *map("".join, zip(*said, strict=True)))


def ran(module: str, *arguments: object) -> tuple[int, str]:
    """Exit code and what is said of a module of tests/kernels in a process of its own."""
    command = [sys.executable, "-m", f"tests.kernels.{module}", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout + done.stderr


class Tool:
    """``python -m validate`` in an empty working directory."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
        # What the session that runs these tests sets must not reach the run under test.
        for name in [n for n in self.environment if n.startswith("PYTEST_")]:
            del self.environment[name]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "validate", *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=self.cwd, env=self.environment, text=True, stdout=pipe, stderr=pipe)

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        with self.start(*arguments) as process:
            out, err = process.communicate(timeout=300)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def refused(self, *arguments: str) -> str:
        """Runs what must end with exit code 3 and one line; returns the line."""
        done = self(*arguments)
        assert done.returncode == 3, done
        assert done.stderr.startswith("error: "), done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr


def line(case: str = "kda/tp8-batch2/trained/s0", subject: str = "emulated-default", figure: float = 0.5) -> Line:
    """A line with one check whose bound is 1."""
    measured = Measured(tensor="out", check="rounding", figure=figure, bound=1.0, passed=figure <= 1, detail="at row 0")
    stage, _, inputs, seed = case.split("/")
    sizes = {"tp": 8, "batch": 2}
    return Line(
        case=case,
        stage=stage,
        sizes=sizes,
        inputs=inputs,
        seed=int(seed[1:]),
        subject=subject,
        seconds=0.25,
        measurements=(measured,),
    )
