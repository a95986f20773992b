"""The folder of a run: written as the run goes, so that nothing that happens later loses what was measured."""

import os
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from validate.errors import InputError
from validate.records.model import SCHEMA_VERSION, Line, Manifest

MANIFEST, MEASUREMENTS, SUMMARY = "manifest.json", "measurements.jsonl", "summary.md"
Parsed = TypeVar("Parsed", bound=BaseModel)


def now() -> str:
    """UTC, to the second, ISO 8601."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def create(parent: Path, profile: str) -> Path:
    """A new folder ``<UTC time>-<profile>`` under ``parent``. InputError if it cannot be written."""
    stem = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{profile}"
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for n in range(1, 100):
            folder = parent / (stem if n == 1 else f"{stem}-{n}")
            try:
                folder.mkdir()
                return folder
            except FileExistsError:
                continue
    except OSError as error:
        raise unwritable(parent, error) from error
    raise InputError(f"cannot make a run folder in {parent}: {stem} and its 98 successors exist")


def write(folder: Path, name: str, content: str) -> None:
    """A whole file, under a temporary name first: a reader sees the old one or the new one, never half."""
    temporary = folder / f".{name}.part"
    try:
        temporary.write_text(content, encoding="utf-8")
        os.replace(temporary, folder / name)
    except OSError as error:
        raise unwritable(folder / name, error) from error


def write_manifest(folder: Path, manifest: BaseModel) -> None:
    """``manifest.json``."""
    write(folder, MANIFEST, manifest.model_dump_json(indent=2) + "\n")


def write_lines(file: Path, lines: Iterable[BaseModel]) -> None:
    """A file of JSON lines as a whole."""
    write(file.parent, file.name, _json(lines))


def append(file: Path, lines: Iterable[BaseModel]) -> None:
    """Further lines of a file of JSON lines, on disk when this returns."""
    try:
        with file.open("a", encoding="utf-8") as opened:
            opened.write(_json(lines))
            opened.flush()
    except OSError as error:
        raise unwritable(file, error) from error


def layer(folder: Path) -> str:
    """Of which layer a run is, as its manifest says; "" where there is none, or it says nothing."""
    path = folder / MANIFEST
    found = re.search(r'"layer":\s*"([\w-]+)"', text(path)) if path.is_file() else None
    return found[1] if found else ""


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a run. InputError if there is none or it is damaged."""
    return versioned(Manifest, folder / MANIFEST)


def read_lines(folder: Path, *, mend: bool = False) -> list[Line]:
    """The measurements of a run. InputError names the file and line that is damaged.

    ``mend`` drops a last line that was cut off in mid-write: what a run that was killed leaves.
    """
    path = folder / MEASUREMENTS
    lines, last = complete(Line, path)
    if last and not mend:
        raise InputError(f"{path}, line {len(lines) + 1}: truncated; `numerics --resume {folder}` runs that case again")
    return lines


def complete(model: type[Parsed], file: Path) -> tuple[list[Parsed], str]:
    """The lines of a file that were written to their end, and what of a last one was. InputError names a damaged one."""
    *rows, last = text(file).split("\n")
    return [parse(model, row, f"{file}, line {number}") for number, row in enumerate(rows, 1)], last


def versioned(model: type[Parsed], path: Path) -> Parsed:
    """A file that says which version of the record it is of. InputError if it is another one, or damaged."""
    written = text(path)
    version = re.search(r'"schema_version":\s*(\w+)', written)
    if version and version[1] != str(SCHEMA_VERSION):
        raise InputError(f"{path}: schema version {version[1]}, this version reads {SCHEMA_VERSION}")
    return parse(model, written, f"{path}")


def text(path: Path) -> str:
    """A file of a record. InputError if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InputError(f"no run record: {path} does not exist") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from error


def parse(model: type[Parsed], written: str, where: str) -> Parsed:
    """A part of a record from its JSON. InputError says ``where`` it is damaged, and which field."""
    try:
        return model.model_validate_json(written)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise InputError(f"{where}: {field + ': ' if field else ''}{first['msg']}") from error


def _json(lines: Iterable[BaseModel]) -> str:
    return "".join(line.model_dump_json(exclude_none=True) + "\n" for line in lines)


def unwritable(path: Path, error: OSError) -> InputError:
    """What to raise where a file of a record cannot be written."""
    return InputError(f"cannot write {path}: {error.strerror or error}")
