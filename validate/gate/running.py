"""One command of a step in a process of its own: its output in a log, its time limited."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from validate.records import folder

GRACE = 120.0  # seconds from the interruption to the end: an engine that stops, and a record that is written
LOOK = 0.2  # seconds


@dataclass(frozen=True)
class Ended:
    """How a command ended. ``code``: its exit code, negative after a signal; ``stopped``: it ran out of time."""

    code: int
    seconds: float
    stopped: bool


def run(command: Sequence[str], log: Path, seconds: float, lock: int, by: signal.Signals, show: Callable[[], None]) -> Ended:
    """Runs a command to its end or for so many seconds; then, and after Ctrl-C, it is interrupted ``by`` a signal.

    One that does not end within ``GRACE`` is killed. It inherits the file descriptor ``lock``: while it lives on without this
    process, nobody else continues the run. ``show`` is called now and then.
    """
    began = time.monotonic()
    process = _start(command, log, lock, by)
    stopped = False
    try:
        while process.poll() is None:
            if time.monotonic() - began > seconds:
                stopped = True
                _stop(process, by)
                break
            show()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LOOK)
    except BaseException:
        _stop(process, by)
        raise
    return Ended(process.returncode, time.monotonic() - began, stopped)


def _start(command: Sequence[str], log: Path, lock: int, by: signal.Signals) -> subprocess.Popen[bytes]:
    child = [sys.executable, "-m", "validate.gate.child", str(os.getpid()), str(int(by)), *command]
    try:
        with log.open("ab") as opened:
            # Not of the terminal's group: Ctrl-C there reaches this process, which tells the child once.
            return subprocess.Popen(
                child,
                stdin=subprocess.DEVNULL,
                stdout=opened,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                pass_fds=[lock],
                start_new_session=True,
            )
    except OSError as error:
        raise folder.unwritable(log, error) from error


def _stop(process: subprocess.Popen[bytes], by: signal.Signals) -> None:
    process.send_signal(by)
    try:
        process.wait(GRACE)
    except BaseException as error:  # it does not end, or Ctrl-C a second time
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
