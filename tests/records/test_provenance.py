"""What a record says of the code that made it."""

import os
import subprocess
from pathlib import Path

import pytest

from validate.records import provenance


def test_to_ask_for_the_commit_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e", *arguments], check=True)

    (tmp_path / "validate").mkdir()
    file = tmp_path / "validate" / "a.py"
    file.write_text("")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    os.utime(file, (0, 0))  # git status would note in the index that the content is the same
    monkeypatch.setattr(provenance, "PACKAGE", tmp_path / "validate")
    before = (tmp_path / ".git" / "index").read_bytes()
    commit, dirty = provenance.commit()
    assert commit
    assert dirty is False
    assert (tmp_path / ".git" / "index").read_bytes() == before
    answer = provenance._git
    monkeypatch.setattr(provenance, "_git", lambda *words: None if words[0] == "status" else answer(*words))
    assert provenance.commit() == (commit, True)


def test_an_image_that_is_set_to_nothing_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(provenance.IMAGE, "")
    assert provenance.machine().image is None
