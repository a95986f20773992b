"""The folder of an arm: requests are appended as they end, so that an engine that dies loses none that it finished."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from validate.errors import InputError
from validate.records.arm import ArmManifest, Steps, Transcript
from validate.records.folder import MANIFEST, write

Parsed = TypeVar("Parsed", bound=BaseModel)
TRANSCRIPTS, STEPS = "transcripts.jsonl", "steps.json"


@dataclass(frozen=True)
class Arm:
    """A recorded arm. ``transcripts`` are in recording order; ``steps`` is None where the engine gave no account of them."""

    folder: Path
    manifest: ArmManifest
    transcripts: tuple[Transcript, ...]
    steps: Steps | None


def write_manifest(folder: Path, manifest: ArmManifest) -> None:
    """``manifest.json``."""
    write(folder, MANIFEST, manifest.model_dump_json(indent=2) + "\n")


def write_steps(folder: Path, steps: Steps) -> None:
    """``steps.json``."""
    write(folder, STEPS, steps.model_dump_json(indent=2) + "\n")


def append(folder: Path, transcripts: Iterable[Transcript]) -> None:
    """Further lines of ``transcripts.jsonl``, handed to the system when this returns."""
    try:
        with (folder / TRANSCRIPTS).open("a", encoding="utf-8") as file:
            file.write(_lines(transcripts))
    except OSError as error:
        raise InputError(f"cannot write {folder / TRANSCRIPTS}: {error.strerror or error}") from error


def keep(folder: Path, transcripts: Iterable[Transcript]) -> None:
    """``transcripts.jsonl`` as a whole: the requests that need not be asked again."""
    write(folder, TRANSCRIPTS, _lines(transcripts))


def read(folder: Path, *, mend: bool = False) -> Arm:
    """The record of an arm. InputError names the file and line that is damaged.

    ``mend`` leaves out a last line that was cut off in mid-write, and requests without a result.
    """
    manifest = _parsed(ArmManifest, _text(folder / MANIFEST), f"{folder / MANIFEST}")
    steps = _parsed(Steps, _text(folder / STEPS), f"{folder / STEPS}") if (folder / STEPS).exists() else None
    path = folder / TRANSCRIPTS
    rows = (_text(path) if path.exists() else "").split("\n")
    last = rows.pop()
    if last and not mend:
        raise InputError(
            f"{path}, line {len(rows) + 1}: truncated; resume the recording of {folder}, which asks that request again"
        )
    found = [_parsed(Transcript, row, f"{path}, line {number}") for number, row in enumerate(rows, 1)]
    return Arm(folder, manifest, tuple(one for one in found if not (mend and one.error)), steps)


def _lines(transcripts: Iterable[Transcript]) -> str:
    return "".join(transcript.model_dump_json(exclude_defaults=True) + "\n" for transcript in transcripts)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InputError(f"no record of an arm: {path} does not exist") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from error


def _parsed(model: type[Parsed], text: str, where: str) -> Parsed:
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise InputError(f"{where}: {field + ': ' if field else ''}{first['msg']}") from error
