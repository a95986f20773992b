"""Hashes of a run's files, made when its writer lets go of it: what is altered afterwards shows.

``sha256sum -c SHA256SUMS`` checks a record without this suite. It shows that nothing has changed since, not who made it. Whoever
makes the hashes anew is found out by the digest of them all, which a comparison keeps of each arm that it read, and a report of
each record.
"""

import hashlib
from pathlib import Path

from validate.errors import InputError
from validate.records.folder import text, unwritable, write

SUMS = "SHA256SUMS"


def seal(there: Path) -> str:
    """Writes the hashes of all files of a run, those of runs within it included. Returns the digest of them all."""
    lines = [f"{_sha256(there / name)}  {name}\n" for name in _files(there)]
    write(there, SUMS, "".join(lines))
    return digest(there)


def unseal(there: Path) -> None:
    """Takes the hashes away, where a run goes on."""
    try:
        (there / SUMS).unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(there / SUMS, error) from error


def digest(there: Path) -> str:
    """SHA-256 of ``SHA256SUMS``: it stands for the whole record. InputError if there is none."""
    if not (there / SUMS).is_file():
        raise InputError(
            f"{there} has no {SUMS}: it runs still, or was killed, or made by an earlier version; resume it, or leave it out"
        )
    return hashlib.sha256(text(there / SUMS).encode()).hexdigest()


def known(there: Path) -> str:
    """The digest of a record, "" if it is not sealed."""
    return digest(there) if (there / SUMS).is_file() else ""


def altered(there: Path) -> list[str]:
    """What has changed since a run was sealed, a line a file; empty if nothing has. InputError if it is not sealed."""
    digest(there)
    known = dict(_entry(there, number, line) for number, line in enumerate(text(there / SUMS).splitlines(), 1))
    found = _files(there)
    said = [f"{name} was taken away" for name in sorted(known.keys() - set(found))]
    said += [f"{name} was added" for name in found if name not in known]
    return said + [f"{name} was changed" for name in found if name in known and _sha256(there / name) != known[name]]


def _entry(there: Path, number: int, line: str) -> tuple[str, str]:
    hashed, space, name = line.partition("  ")
    if not space or len(hashed) != 64:
        raise InputError(f"{there / SUMS}, line {number}: no hash and name of a file")
    return name, hashed


def _files(there: Path) -> list[str]:
    """Names relative to the folder, without the hashes, locks and files under way."""
    inside = (path.relative_to(there) for path in there.rglob("*") if path.is_file())
    return sorted(str(path) for path in inside if path != Path(SUMS) and not path.name.startswith("."))


def _sha256(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror or error}") from error
