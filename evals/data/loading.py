"""Loads a data set and verifies it: the published files by their digests, any other file row by row against a pin.

A pin is a list of row digests with a word on what they are of. Pins of files that are in public use lie in ``pins/``; one for
files of your own is made by ``python -m evals.data.pin`` and lies beside them as ``<name>.pin.json``. Without one, a file
that is not the published one is refused: a changed row would go unnoticed.
"""

import hashlib
import json
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.data import comma_separated
from evals.data.sources import File, Source
from validate.errors import InputError

FORMATS = {".jsonl": "json", ".csv": "csv", ".parquet": "parquet"}
PINS = Path(__file__).parent / "pins"
Row = dict[str, Any]


@dataclass(frozen=True)
class Loaded:
    """``rows`` in the order of the set; ``digests`` of each; ``identity`` says what they are, in words for a record."""

    source: Source
    rows: tuple[Row, ...]
    digests: tuple[str, ...]
    identity: str

    @property
    def digest(self) -> str:
        """Of all rows together."""
        return hashlib.sha256("".join(self.digests).encode()).hexdigest()


def load(source: Source, folder: Path | None) -> Loaded:
    """The rows of a data set, from the hub, or from ``folder`` where that is given.

    Raises:
        InputError: the files are not to be had, cannot be read, lack columns or rows, or hold other rows than they should.
    """
    if folder is None:
        if not source.hub:
            raise InputError(
                f"{source.name} is not on the hub: download {source.elsewhere}, and give their folder with --data DIR"
            )
        paths = [_from_hub(source, file) for file in source.files]
        published = True
    else:
        paths = given(source, folder)
        published = len(source.files) == 1 and _has(paths[0], source.files[0].digest)
    parts = read(source, paths)
    rows = tuple(row for part in parts.values() for row in part)
    digests = tuple(row_digest(row, source.columns) for row in rows)
    if published:
        if len(rows) != source.rows:
            raise InputError(f"{source.name}: {len(rows)} rows, {source.rows} are in {source.hub} at {source.revision}")
        identity = f"{source.hub} at {source.revision}"
    else:
        identity = _pinned(source, parts, digests)
    return Loaded(source, rows, digests, identity)


def row_digest(row: Row, columns: Sequence[str]) -> str:
    """The first 16 hex digits of the SHA-256 of the columns' values as a JSON list."""
    text = json.dumps([row[column] for column in columns], ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def given(source: Source, folder: Path) -> list[Path]:
    """The set's files in a folder, in an order that hangs on their names alone: one, or of a set in parts any number."""
    if source.parts:
        found = sorted(folder.glob(source.parts), key=_in_order)
        if not found:
            raise InputError(f"{folder} holds no {source.parts} of {source.name}; they are {source.elsewhere}")
        return found
    found = [path for suffix in FORMATS if (path := folder / f"{source.name}{suffix}").is_file()]
    if len(found) != 1:
        names = ", ".join(f"{source.name}{suffix}" for suffix in FORMATS)
        raise InputError(f"{folder} holds {len(found)} files of {source.name}, and one is wanted: {names}")
    return found


def _in_order(path: Path) -> list[tuple[int, str]]:
    """2needle_in_(8192,16384) before 2needle_in_(16384,32768) before 8needle."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", path.name)]


def read(source: Source, paths: list[Path]) -> dict[Path, list[Row]]:
    """The rows of each file. What goes wrong is said without a word of theirs."""
    parts = {path: _rows(source, path) for path in paths}
    if source.parts:
        first: dict[str, str] = {}
        for path, rows in parts.items():
            for place, row in enumerate(rows, 1):
                here = f"row {place} of {path.name}"
                if (there := first.setdefault(row_digest(row, source.columns), here)) != here:
                    raise InputError(
                        f"{path.parent}: {here} is {there} again; leave one of the files out (upto_128K repeats rows)"
                    )
    return parts


def _rows(source: Source, path: Path) -> list[Row]:
    import datasets

    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)  # it says what is wrong with a line, in words of that line
    try:
        if path.suffix == ".csv":
            rows: list[Row] = list(comma_separated.rows(path))
            columns = list(rows[0]) if rows else []
        else:
            with tempfile.TemporaryDirectory() as passing:  # a secret set's text does not stay in the library's cache
                cache = passing if source.secret else None
                table = datasets.load_dataset(FORMATS[path.suffix], data_files=str(path), split="train", cache_dir=cache)
                rows, columns = list(table), table.column_names
    except (datasets.exceptions.DatasetsError, OSError, StopIteration, ValueError) as error:
        raise InputError(f"{path} cannot be read as {path.suffix[1:]} ({type(error).__name__}): is it cut off?") from None
    if not rows:
        raise InputError(f"{source.name}: no rows in {path}")
    if missing := [column for column in source.columns if column not in columns]:
        raise InputError(f"{path} lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)} of {source.name}")
    return rows


def _pinned(source: Source, parts: dict[Path, list[Row]], digests: tuple[str, ...]) -> str:
    """What the rows are, by the pin that has them; InputError with the first row that differs from the nearest pin."""
    path = next(iter(parts))
    here = path if len(parts) == 1 else path.parent
    pins = [_pin(file) for file in (path.with_name(f"{source.name}.pin.json"), *sorted(PINS.glob(f"{source.name}*.json")))]
    known = [pin for pin in pins if pin is not None]
    for what, rows in known:
        if rows == digests:
            return what
    if not known:
        raise InputError(
            f"{here} is not the published file, and there is no pin of it: python -m evals.data.pin {source.name} {path.parent} "
            "makes one of the rows that are there now"
        )
    what, rows = max(known, key=lambda pin: len(set(pin[1]) & set(digests)))
    if len(rows) != len(digests):
        raise InputError(f"{here}: {len(digests)} rows, {len(rows)} are in {what}")
    apart = [place for place, (own, pinned) in enumerate(zip(digests, rows, strict=True)) if own != pinned]
    places = [f"row {n}" + f" of {file.name}" * (len(parts) > 1) for file, part in parts.items() for n in range(1, len(part) + 1)]
    raise InputError(f"{here}: {len(apart)} of {len(rows)} rows are not those of {what}, the first of them {places[apart[0]]}")


def _pin(file: Path) -> tuple[str, tuple[str, ...]] | None:
    if not file.is_file():
        return None
    try:
        held = json.loads(file.read_text(encoding="utf-8"))
        return str(held["of"]), tuple(map(str, held["rows"]))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file} is no pin: {error}") from error


def _from_hub(source: Source, file: File) -> Path:
    """The file at the pinned revision, downloaded or from the hub's cache."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, LocalEntryNotFoundError

    or_else = f"or give --data DIR with {source.name}.jsonl, .csv or .parquet"
    try:
        path = Path(hf_hub_download(source.hub, file.path, repo_type="dataset", revision=source.revision))
    except GatedRepoError:
        raise InputError(f"{source.hub} is gated: accept its terms on the hub and set HF_TOKEN, {or_else}") from None
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        said = type(error).__name__
        raise InputError(f"{source.hub} at {source.revision[:12]} cannot be had from the hub ({said}), {or_else}") from None
    if not _has(path, file.digest):
        raise InputError(f"{path} is not {source.hub}/{file.path} at {source.revision[:12]}: its digest differs")
    return path


def _has(path: Path, digest: str) -> bool:
    """Whether a file has the digest, which may be a Git blob's."""
    if not digest.startswith("git:"):
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == digest
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest() == digest.removeprefix("git:")
