"""The folder of an arm: requests are appended as they end, so that an engine that dies loses none that it finished."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from validate.errors import InputError
from validate.records.arm import ArmManifest, Steps, Transcript
from validate.records.folder import MANIFEST, parse, text, unwritable, versioned, write

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
        raise unwritable(folder / TRANSCRIPTS, error) from error


def keep(folder: Path, transcripts: Iterable[Transcript]) -> None:
    """``transcripts.jsonl`` as a whole: the requests that need not be asked again."""
    write(folder, TRANSCRIPTS, _lines(transcripts))


def manifest(folder: Path) -> ArmManifest:
    """Which engine it was. InputError if there is no record or it is damaged."""
    return versioned(ArmManifest, folder / MANIFEST)


def recordings(parent: Path) -> list[Path]:
    """The folders of the arms that are recorded, or begun, in a run's folder, the oldest first."""
    return [path.parent for path in sorted(parent.glob(f"*/{MANIFEST}"))]


def ended(folder: Path) -> bool:
    """Whether a recording has come to its end."""
    return manifest(folder).end is not None


def read(folder: Path, *, mend: bool = False) -> Arm:
    """The record of an arm. InputError names the file and line that is damaged or says a request twice.

    ``mend`` leaves out what a recording that goes on asks again: requests without a result, a line cut off in mid-write.
    """
    steps = parse(Steps, text(folder / STEPS), f"{folder / STEPS}") if (folder / STEPS).exists() else None
    return Arm(folder, manifest(folder), _read(folder, mend=mend), steps)


def _read(folder: Path, *, mend: bool) -> tuple[Transcript, ...]:
    """One transcript a request: a result takes the place of the errors before it."""
    path = folder / TRANSCRIPTS
    if mend and not path.exists():
        return ()
    rows = text(path).split("\n")
    last = rows.pop()
    if last and not mend:
        raise InputError(f"{path}, line {len(rows) + 1}: truncated; resume the recording, which asks that request again")
    found: dict[str, Transcript] = {}
    for number, row in enumerate(rows, 1):
        transcript = parse(Transcript, row, f"{path}, line {number}")
        before = found.pop(transcript.key, None)
        if before is not None and before.error is None:
            raise InputError(f"{path}, line {number}: request {transcript.key} a second time; did two recordings write here?")
        found[transcript.key] = transcript
    return tuple(one for one in found.values() if not (mend and one.error))


def _lines(transcripts: Iterable[Transcript]) -> str:
    return "".join(transcript.model_dump_json(exclude_defaults=True) + "\n" for transcript in transcripts)
