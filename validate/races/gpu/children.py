"""Trials in processes with a deadline, several at a time. A process that gives no result is one."""

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from validate.races.gpu.child import CONTROL, SOUND, UNDISTURBED, Order, Part
from validate.races.gpu.record import Asked, Attempt, Trial, Tried

DEADLINE = 150.0  # seconds: several times what a trial takes to start, compile three kernels and repeat them
TELLING = 5.0  # seconds before it, the child says where it is
_running: set[subprocess.Popen[bytes]] = set()


def tried(trial: Trial, asked: Asked, scratch: Path, number: int, deadline: float = DEADLINE) -> Tried:
    """What a child finds of a trial, and in how many seconds. ``scratch``: a folder for its files."""
    order = Order(trial=trial, vllm_src=asked.vllm_src, repeats=asked.repeats, dump_after=max(deadline - TELLING, 1.0))
    files = scratch / f"{number}.json", scratch / f"{number}.jsonl"
    files[0].write_text(order.model_dump_json(), encoding="utf-8")
    start = time.monotonic()
    said = ended([sys.executable, "-m", "validate.races.gpu.child", *map(str, files)], scratch / f"{number}.log", deadline)
    parts = read(files[1])
    sound, control = parts.get(SOUND), parts.get(CONTROL)
    lost = None
    if control is None and (sound is None or not sound.wrong):
        lost = f"{'the kernel' if sound is None else 'its control'}: {said}"
    seconds = time.monotonic() - start
    return Tried(
        trial=trial, sound=sound, control=control, undisturbed=parts.get(UNDISTURBED), seconds=round(seconds, 1), lost=lost
    )


def read(out: Path) -> dict[str, Attempt]:
    """The attempts that a child has told of; a last line that was cut off is left out."""
    if not out.is_file():
        return {}
    rows = out.read_text(encoding="utf-8").split("\n")[:-1]
    return {part.part: part.attempt for part in map(Part.model_validate_json, rows)}


def ended(command: Sequence[str], log: Path, deadline: float, environment: dict[str, str] | None = None) -> str:
    """Runs a command to its end, or kills it at the deadline; says how it ended. What it prints goes to ``log``."""
    given = {**os.environ, **(environment or {})}
    with log.open("wb") as opened, subprocess.Popen(command, stdout=opened, stderr=subprocess.STDOUT, env=given) as process:
        _running.add(process)
        try:
            code = process.wait(deadline)
        except subprocess.TimeoutExpired:
            process.kill()
            return f"killed after {deadline:.0f} s" + _where(log)
        finally:
            _running.discard(process)
    if code == 0:
        return "exit code 0"
    return f"exit code {code}: {reason(log.read_text(encoding='utf-8', errors='replace'))}"


def reason(text: str) -> str:
    """Why a program ended, from what it printed: an exception's first line, and where; without one the last line."""
    lines = text.strip().splitlines()
    tracebacks = [number for number, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")]
    if not tracebacks:
        return lines[-1] if lines else "it said nothing"
    rest = lines[tracebacks[-1] + 1 :]
    frames = list(itertools.takewhile(lambda line: not line or line.startswith(" "), rest))
    places = [line.strip() for line in frames if line.startswith("  File ")]
    own = [place for place in places if "validate" in place] or places
    what = rest[len(frames)] if len(rest) > len(frames) else "an exception that was cut off"
    return f"{what} ({own[-1]})" if own else what


def stop() -> None:
    """Kills all that still run."""
    for process in list(_running):
        process.kill()


def _where(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    return next((f" in {line}" for line in lines if line.startswith("File ")), "")
