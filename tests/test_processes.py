"""What is printed of this interpreter, and that workers are ended."""

import os
import signal
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from validate import processes


def test_python_is_named_so_that_a_shell_finds_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert processes.python() == "python"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir("/")
    assert processes.python() == os.path.relpath(sys.executable)
    monkeypatch.chdir(tmp_path)
    assert processes.python() == sys.executable


def test_workers_are_ended_in_the_midst_of_their_work() -> None:
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # as the command line does, for all that it forks
    pool, began = ProcessPoolExecutor(1), time.monotonic()
    pool.submit(time.sleep, 60)
    pool.submit(time.sleep, 60)
    processes.end_workers()
    pool.shutdown()
    signal.signal(signal.SIGTERM, before)
    assert time.monotonic() - began < 30
