"""Arms recorded side by side, each in a process of its own: an engine that dies takes no other with it."""

import os
import subprocess
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console

from validate.errors import InputError
from validate.records import folder

LOGGED = 300  # characters of a log's line that are shown


def run(
    commands: Mapping[str, list[str]],
    there: Path,
    environment: Mapping[str, str],
    ended: Callable[[str], bool],
    out: Console,
) -> None:
    """Runs the commands, by the arm that each records, and shows what they print.

    What they say on standard error goes to ``<arm>.log`` in the folder ``there``. ``ended``: whether an arm is recorded to its
    end. InputError, after all processes have, with what those whose arms are not said before they failed.
    """
    if not commands:
        return
    with ThreadPoolExecutor(len(commands)) as pool:
        started: list[subprocess.Popen[str]] = []
        try:
            said = []
            for name, command in commands.items():
                log = there / f"{name}.log"
                before = log.stat().st_size if log.exists() else 0
                started.append(_start(command, log, environment))
                said.append(pool.submit(_follow, name, started[-1], log, before, ended, out))
            failed = [line for one in said if (line := one.result())]
        except BaseException:  # Ctrl-C, say: they keep what they have, and the pool waits for them
            for process in started:
                process.terminate()
            raise
    if failed:
        raise InputError("; ".join(failed))


def _start(command: list[str], log: Path, environment: Mapping[str, str]) -> subprocess.Popen[str]:
    try:
        with log.open("ab") as errors:
            # Not of the terminal's group: Ctrl-C there reaches this process, which tells them once.
            return subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                errors="replace",
                env={**os.environ, **environment},
                start_new_session=True,
            )
    except OSError as error:
        raise folder.unwritable(log, error) from error


def _follow(
    name: str, process: subprocess.Popen[str], log: Path, before: int, ended: Callable[[str], bool], out: Console
) -> str | None:
    """Why an arm is not recorded to its end, from what the log says behind its first ``before`` bytes.

    None where it is. Whether it proves anything the comparison says: of one that does not, the exit code is 3, too.
    """
    with process:
        for line in process.stdout or ():
            said = line.rstrip().partition(", go on with: ")[0]  # this process says how, for all arms
            out.print(f"{name}: {said}", markup=False, highlight=False, soft_wrap=True)
    if ended(name):
        return None
    logged = log.read_bytes()[before:].decode(errors="replace").strip().splitlines() or ["it said nothing"]
    last = next((line for line in reversed(logged) if line.startswith("error: ")), logged[-1])
    reason = last.removeprefix("error: ").partition(", go on with: ")[0][:LOGGED]
    return f"{name} was not recorded, exit code {process.returncode}: {reason} (all of it: {log})"
