"""``python -m evals.data.pin NAME DIR [WHAT]``: pins the set's rows in DIR as they are now, in ``DIR/NAME.pin.json``."""

import json
import sys
from pathlib import Path

from evals.data import loading
from evals.data.sources import SOURCES
from validate.errors import InputError


def pin(name: str, folder: Path, what: str) -> Path:
    """Writes the pin; InputError as for loading."""
    if name not in SOURCES:
        raise InputError(f"there is no data set {name}; there are {', '.join(SOURCES)}")
    source = SOURCES[name]
    parts = loading.read(source, loading.given(source, folder))
    digests = [loading.row_digest(row, source.columns) for rows in parts.values() for row in rows]
    file = folder / f"{name}.pin.json"
    file.write_text(json.dumps({"of": what, "rows": digests}, indent=0) + "\n", encoding="utf-8")
    return file


if __name__ == "__main__":
    try:
        if not 3 <= len(sys.argv) <= 4:
            raise InputError("python -m evals.data.pin NAME DIR [WHAT]")
        name, folder, *rest = sys.argv[1:]
        print(pin(name, Path(folder), rest[0] if rest else f"a file of one's own, pinned in {folder}"))
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(3)
