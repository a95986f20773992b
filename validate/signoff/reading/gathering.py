"""All records under some folders, each verified against the hashes that it was sealed with."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from evals.records.model import EvalManifest
from validate.errors import InputError
from validate.records import seal
from validate.records.arm import ArmManifest, EngineManifest
from validate.records.folder import MANIFEST, parse, text, versioned
from validate.signoff.evidence import Evidence, Matrix, Source
from validate.signoff.reading import drift, engines, evals, numerics, races

COMPARISON, DETECTION = "comparison.json", "detection.json"
COMPARED = {"equivalence": engines.read, "long-output": engines.read_long, "evals": evals.read}
DAMAGED = (ValueError, TypeError, LookupError, AttributeError)  # what readers say of fields that are not what they were
FEWEST = 2  # arms of a comparison: benchmarks may have no A/A arm
SHOWN = 3  # altered files that an error names


@dataclass(frozen=True)
class Gathered:
    """What all records say, in the order in which they were named. ``left_out``: folders that say nothing of a release."""

    evidence: tuple[Evidence, ...]
    matrices: tuple[Matrix, ...]
    left_out: tuple[str, ...] = ()


def gathered(paths: Sequence[Path]) -> Gathered:
    """InputError names a folder without a record, and a record that was altered, is damaged or of another schema version."""
    if gone := next((path for path in paths if not path.is_dir()), None):
        raise InputError(f"{gone} is no folder: give folders of runs, or one that holds them")
    found = [(path, sorted(_folders(path))) for path in paths]
    if bare := next((path for path, folders in found if not folders), None):
        raise InputError(f"{bare} holds no run record: give folders of runs, or one that holds them")
    folders = list(dict.fromkeys(folder.resolve() for _, inside in found for folder in inside))
    sealed = _verified(folders)
    files = {folder: _json(_file(folder)) for folder in folders}
    arms = {sealed[folder].digest: folder for folder, written in files.items() if _arm(written)}
    read = {folder: _evidence(folder, written, sealed[folder], arms) for folder, written in files.items()}
    every = [one for found in read.values() for one in found]
    return Gathered(
        tuple(one for one in every if isinstance(one, Evidence)),
        tuple(one for one in every if isinstance(one, Matrix)),
        tuple(folder.name for folder, found in read.items() if not found and not _arm(files[folder])),
    )


def _folders(path: Path) -> Iterator[Path]:
    """Those that hold a record, behind links, too. InputError for one that cannot be looked into: it may hold a defect."""

    def unread(error: OSError) -> NoReturn:
        raise InputError(f"cannot read {error.filename}: {error.strerror}") from error

    seen = set[Path]()
    for there, inside, files in os.walk(path, followlinks=True, onerror=unread):
        if (real := Path(there).resolve()) in seen:
            inside.clear()
            continue
        seen.add(real)
        if {MANIFEST, COMPARISON, DETECTION} & set(files):
            yield Path(there)


def _verified(folders: Sequence[Path]) -> dict[Path, Source]:
    """InputError names all that are not."""
    found, wrong = dict[Path, Source](), list[str]()
    for folder in folders:
        try:
            found[folder] = verified(folder)
        except InputError as error:
            wrong.append(str(error))
    if wrong:
        raise InputError("; ".join(wrong))
    return found


def verified(folder: Path) -> Source:
    """A record whose files are those that it was sealed with. InputError names the ones that are not."""
    if changed := seal.altered(folder):
        more = f" and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
        raise InputError(f"{folder} was altered after the run: {'; '.join(changed[:SHOWN])}{more}")
    return Source(name=folder.name, digest=seal.digest(folder), verified=True)


def _evidence(folder: Path, written: dict[str, Any], source: Source, arms: dict[str, Path]) -> list[Evidence | Matrix]:
    try:
        return [*_read(folder, written, source, arms)]
    except DAMAGED as error:
        raise InputError(f"{folder} is damaged: {type(error).__name__}: {' '.join(str(error).split())[:200]}") from error


def _file(folder: Path) -> Path:
    """The file that says what kind of record it is."""
    return next(folder / name for name in (COMPARISON, DETECTION, MANIFEST) if (folder / name).is_file())


def _read(folder: Path, written: dict[str, Any], source: Source, arms: dict[str, Path]) -> Iterator[Evidence | Matrix]:
    name = _file(folder).name
    if name == COMPARISON:
        reader = COMPARED.get(str(written.get("layer")))
        if reader is None:
            raise InputError(f"{folder / COMPARISON}: a comparison of the layer {written.get('layer')}, which is not known")
        yield reader(folder, source, _compared_in(folder / COMPARISON, written, arms))
    elif name == DETECTION:
        yield engines.matrix(folder, source)
    elif not _arm(written):
        yield from _own(folder, written, source)


def _own(folder: Path, written: dict[str, Any], source: Source) -> Iterator[Evidence | Matrix]:
    """A record that is no arm and no comparison; what only measures speed contributes nothing."""
    layer, asked = written.get("layer"), written.get("arguments", written.get("asked", {}))
    if not isinstance(asked, dict):
        raise InputError(f"{folder / MANIFEST}: its arguments are no table")
    faults = asked.get("mode") == "faults" or asked.get("faults") is True
    if layer == "numerics" and asked.get("mode") in (None, "numerics"):
        yield numerics.read(folder, source)
    elif layer == "numerics" and faults:
        yield numerics.matrix(folder, source)
    elif layer == "races":
        yield races.matrix(folder, source) if faults else races.read(folder, source)
    elif layer == "races-gpu":
        yield races.read_gpu(folder, source)
    elif layer == "drift":
        yield drift.matrix(folder, source) if faults else drift.read(folder, source)


def _compared_in(file: Path, written: dict[str, Any], arms: dict[str, Path]) -> tuple[Source, ...]:
    """The arms of a comparison, which must say of each what its record says."""
    of = written.get("engines", written)
    told, folders, digests = (of.get(name, []) for name in ("arms", "folders", "records"))
    if len(told) < FEWEST or len(folders) != len(told) or len(digests) not in (0, len(told)):
        raise InputError(f"{file}: {len(told)} arms of {len(folders)} folders and {len(digests)} digests")
    known = [digest for digest in digests if digest]
    if len(set(known)) < len(known):
        raise InputError(f"{file}: two of its arms are one record, which shows nothing")
    named = zip(folders, digests or [""] * len(told), told, strict=True)
    return tuple(_compared(file, Path(folder), digest, manifest, arms) for folder, digest, manifest in named)


def _compared(file: Path, folder: Path, digest: str, told: dict[str, Any], arms: dict[str, Path]) -> Source:
    """An arm of a comparison: verified where its record is among those that were given, or still where it was compared."""
    there = arms.get(digest)
    if there is None and digest and folder.is_dir():
        if verified(folder).digest != digest:
            raise InputError(f"{folder} is not the record that was compared: it was recorded further, or sealed anew, since")
        there = folder
    if there is not None:
        model: type[EngineManifest] = EvalManifest if "suite" in told else ArmManifest
        own, said = versioned(model, there / MANIFEST), parse(model, json.dumps(told), f"{file}, its arm {folder.name}")
        for name in model.model_fields:
            if getattr(own, name) != getattr(said, name):
                raise InputError(f"{file}: it says another {name} of the arm {folder.name} than {there / MANIFEST} does")
    return Source(name=folder.name, digest=digest, verified=there is not None)


def _arm(written: dict[str, Any]) -> bool:
    return "decode_backend" in written


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(text(file))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: {error}") from error
    if not isinstance(found, dict):
        raise InputError(f"{file}: no record")
    return found
