"""Whatever is altered after a run shows, by name."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from validate.errors import InputError
from validate.records import seal


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    (tmp_path / "arm").mkdir()
    (tmp_path / "manifest.json").write_text('{"verdict": "FAIL"}')
    (tmp_path / "arm/transcripts.jsonl").write_text("one\n")
    seal.seal(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda there: (there / "manifest.json").write_text('{"verdict": "PASS"}'), "manifest.json was changed"),
        (lambda there: (there / "arm/transcripts.jsonl").unlink(), "arm/transcripts.jsonl was taken away"),
        (lambda there: (there / "arm/more.jsonl").write_text(""), "arm/more.jsonl was added"),
    ],
)
def test_a_change_is_named(sealed: Path, change: Callable[[Path], object], said: str) -> None:
    assert seal.altered(sealed) == []
    change(sealed)
    assert seal.altered(sealed) == [said]


def test_new_hashes_do_not_hide_a_change_from_whoever_has_the_digest(sealed: Path) -> None:
    before = seal.digest(sealed)
    (sealed / "manifest.json").write_text('{"verdict": "PASS"}')
    seal.seal(sealed)
    assert seal.altered(sealed) == []
    assert seal.digest(sealed) != before


def test_locks_and_files_under_way_are_left_out(sealed: Path) -> None:
    (sealed / ".lock").write_text("")
    (sealed / "arm/.steps.json.part").write_text("")
    assert seal.altered(sealed) == []


def test_sha256sum_reads_it(sealed: Path) -> None:
    done = subprocess.run(["sha256sum", "-c", seal.SUMS], cwd=sealed, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "arm/transcripts.jsonl: OK" in done.stdout


def test_what_is_not_sealed_is_refused(sealed: Path) -> None:
    (sealed / seal.SUMS).unlink()
    with pytest.raises(InputError, match="has no SHA256SUMS: it runs still, or was killed"):
        seal.altered(sealed)


def test_a_damaged_list_is_refused(sealed: Path) -> None:
    (sealed / seal.SUMS).write_text("nonsense\n")
    with pytest.raises(InputError, match="line 1: no hash"):
        seal.altered(sealed)
