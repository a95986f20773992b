"""Golden records that a sign-off may be given are as they were sealed."""

import pytest

from tests.support import ROOT
from validate.records import seal

SEALED = sorted(file.parent for file in (ROOT / "golden").rglob(seal.SUMS))


def test_there_are_some() -> None:
    assert {there.relative_to(ROOT / "golden").parts[0] for there in SEALED} == {"races", "transcripts"}


@pytest.mark.parametrize("there", SEALED, ids=lambda there: str(there.relative_to(ROOT)))
def test_nothing_was_altered(there: object) -> None:
    assert seal.altered(there) == []  # type: ignore[arg-type]
