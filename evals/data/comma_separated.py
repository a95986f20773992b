"""Reads CSV files whose fields may be megabytes, as MRCR's are."""

import csv
from pathlib import Path

LARGEST = 2**31 - 1  # of a field, in characters: what csv takes on any platform; its default is 131,072


def rows(path: Path) -> list[dict[str, str]]:
    """All rows; every value is text as it stands.

    Raises:
        ValueError: a row has another number of fields than the head, a quote is not closed, or the like.
        OSError: as for opening a file.
    """
    before = csv.field_size_limit(LARGEST)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            table = csv.reader(file, strict=True)
            head = next(table, [])
            return [dict(zip(head, fields, strict=True)) for fields in table if fields]
    except csv.Error as error:
        raise ValueError(str(error)) from error
    finally:
        csv.field_size_limit(before)
