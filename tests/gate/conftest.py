"""A folder to run gates in."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gate import steps
from tests.support import ROOT
from validate.gate import record, session
from validate.gate.given import Given
from validate.gate.record import Gate
from validate.report.console import console


class Place:
    """Runs gates of made-up steps in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, *made: dict[str, Any], keep_going: bool = False) -> Path:
        return session.begin(steps.profile(self.folder, *made), Path("runs"), keep_going)

    def run(self, there: Path, keep_going: bool = False, **given: tuple[str, ...]) -> tuple[int, Gate]:
        code = session.run(there, Given(**given), keep_going, console())
        return code, record.read(there)

    def ran(self) -> list[str]:
        """What ran since the last call of this, in order."""
        return [what for what, _ in self.calls()]

    def calls(self) -> list[Any]:
        path = self.folder / "ran"
        found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        path.unlink(missing_ok=True)
        return found


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return Place(tmp_path)
