"""The folder of an arm of evals: responses are appended as they come, so that a run that is killed loses none that it has."""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from evals.records.model import Answered, EvalManifest
from validate.errors import InputError
from validate.records.arm import Steps
from validate.records.folder import MANIFEST, parse, text, unwritable, versioned, write

RESPONSES, STEPS = "responses.jsonl", "steps.json"


def begin(folder: Path) -> None:
    """The folder, if it is not there yet, with no response in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error
    append(folder, [])


def write_manifest(folder: Path, manifest: EvalManifest) -> None:
    """``manifest.json``."""
    write(folder, MANIFEST, manifest.model_dump_json(indent=2) + "\n")


def manifest(folder: Path) -> EvalManifest:
    """Which engine was asked what. InputError if there is no record or it is damaged."""
    return versioned(EvalManifest, folder / MANIFEST)


def write_steps(folder: Path, steps: Steps) -> None:
    """``steps.json``."""
    write(folder, STEPS, steps.model_dump_json(indent=2) + "\n")


def steps(folder: Path) -> Steps | None:
    """The engine's account of its steps; None where there is none."""
    path = folder / STEPS
    return parse(Steps, text(path), f"{path}") if path.exists() else None


def append(folder: Path, answered: Iterable[Answered]) -> None:
    """Further lines of ``responses.jsonl``, handed to the system when this returns."""
    try:
        with (folder / RESPONSES).open("a", encoding="utf-8") as file:
            file.write("".join(map(_line, answered)))
    except OSError as error:
        raise unwritable(folder / RESPONSES, error) from error


def responses(folder: Path) -> Iterator[Answered]:
    """The responses, one at a time, in the order in which they came. InputError names the line that is damaged or cut off."""
    path = folder / RESPONSES
    try:
        with path.open(encoding="utf-8") as file:
            for number, row in enumerate(file, 1):
                if not row.endswith("\n"):
                    raise InputError(f"{path}, line {number}: truncated; resume the run, which asks that request again")
                yield parse(Answered, row, f"{path}, line {number}")
    except FileNotFoundError as error:
        raise InputError(f"no responses: {path} does not exist") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from error


def mend(folder: Path) -> None:
    """Cuts off a last line that a run which was killed left half written."""
    path = folder / RESPONSES
    if not path.exists():
        return
    try:
        with path.open("rb+") as file:
            end = file.seek(0, os.SEEK_END)
            while end and not _ends_a_line(file, end):
                end -= 1
            file.truncate(end)
    except OSError as error:
        raise unwritable(path, error) from error


def drop(folder: Path, unwanted: Callable[[Answered], bool]) -> None:
    """Takes responses out. InputError as for reading."""
    path, part = folder / RESPONSES, folder / f".{RESPONSES}.part"
    if not any(unwanted(one) for one in responses(folder)):
        return
    try:
        with part.open("w", encoding="utf-8") as file:
            for one in responses(folder):
                if not unwanted(one):
                    file.write(_line(one))
        os.replace(part, path)
    except OSError as error:
        raise unwritable(path, error) from error


def _line(one: Answered) -> str:
    return one.model_dump_json(exclude_defaults=True) + "\n"


def _ends_a_line(file: BinaryIO, end: int) -> bool:
    file.seek(end - 1)
    return bool(file.read(1) == b"\n")
