"""Why a step is no PASS, in the layer's own words: its ``junit.xml``, else what it said last."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from validate.records.folder import MANIFEST
from validate.report.junit import clean

BEGUN, COMPARISON = "begun.json", "comparison.json"
FIRST = 10  # reasons of a step; its own record has all
LONGEST = 400  # characters of a reason
TAIL = 64 * 2**10  # bytes of a log that are looked at
LARGEST = 64 * 2**20  # bytes of a junit.xml that is read
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def record(step: Path) -> Path | None:
    """The record in a step's folder; None where the step has left none."""
    found = [path for path in sorted(step.iterdir()) if any((path / name).is_file() for name in (MANIFEST, BEGUN, COMPARISON))]
    return found[-1] if found else None


def continued(record: Path | None) -> bool:
    """Whether a record can be continued: a comparison is made in one go."""
    return record is not None and not (record / COMPARISON).is_file()


def reasons(failed: Sequence[str], said: str) -> tuple[str, ...]:
    """The first of them. ``failed``: the function's below; ``said``: the end of the step's log.

    A line ``error:``, bad input, comes first.
    """
    lines = [line for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error: ")][-1:]
    found = [*errors, *failed] or lines[-1:] or ["it said nothing"]
    return tuple(short(line) for line in found[:FIRST])


def failed(there: Path, since: float) -> list[str]:
    """Tests of a record's newest ``junit.xml`` that failed, FAIL before the others: the verdict, which test, what it found.

    ``since``: when the step began, in seconds of the epoch; what is older is of another call.
    """
    files = [path for path in there.rglob("junit.xml") if path.stat().st_mtime >= since and path.stat().st_size <= LARGEST]
    if not files:
        return []
    try:
        root = ET.parse(max(files, key=lambda path: path.stat().st_mtime)).getroot()
    except ET.ParseError:
        return []
    return [line for kind in ("failure", "error") for line in _of(root, kind)]


def tail(log: Path, before: int = 0) -> str:
    """The end of a log, of what was written behind its first ``before`` bytes; without colours."""
    with log.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(before, size - TAIL))
        return clean(_ESCAPES.sub("", file.read().decode(errors="replace")))


def short(text: str) -> str:
    """One line of ``LONGEST`` characters at most."""
    line = " ".join(clean(text).split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]} … ({len(line):,} characters)"


def _of(root: ET.Element, kind: str) -> Iterator[str]:
    for test in root.iter("testcase"):
        entry = test.find(kind)
        if entry is not None:
            of, name = test.get("classname", ""), test.get("name", "")
            where = name if name.startswith(of) else f"{of} {name}"
            yield f"{entry.get('type', kind)} {where}: {entry.get('message', '')}"
