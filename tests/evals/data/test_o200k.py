"""Where the vocabulary of o200k_base is looked for, and that it is the right one. It is downloaded in no test."""

import os
import shutil
from pathlib import Path

import pytest

from evals.data import o200k
from validate.errors import InputError

tiktoken = pytest.importorskip("tiktoken")
load = pytest.importorskip("tiktoken.load")
HERE = o200k.vocabulary(None)


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setattr(tiktoken.registry, "ENCODINGS", {})


def test_without_a_vocabulary_there_is_no_count_and_no_download(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(load, "read_file", lambda path: pytest.fail("downloads"))
    assert o200k.vocabulary(tmp_path) is None
    assert o200k.encoding(tmp_path, download=False) is None
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert o200k.vocabulary(None) is None


@pytest.mark.parametrize("error", [OSError("no network"), ValueError("another file")])
def test_a_download_that_fails_is_no_count(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fails(path: str) -> bytes:
        assert path == o200k.ADDRESS
        raise error

    monkeypatch.setattr(load, "read_file", fails)
    assert o200k.encoding(None, download=True) is None


def test_another_file_is_refused_and_stays(tmp_path: Path) -> None:
    kept = tmp_path / "kept" / o200k.KEPT
    for path in (tmp_path / "o200k_base.tiktoken", kept):
        path.parent.mkdir(exist_ok=True)
        path.write_text("another")
        with pytest.raises(InputError, match="is not the vocabulary of o200k_base: take it away, or put https://") as error:
            o200k.encoding(tmp_path, download=True)
        assert str(error.value).startswith(str(path))
        assert path.read_text() == "another"
        if path != kept:
            path.unlink()


@pytest.mark.skipif(HERE is None, reason="no vocabulary of o200k_base on this machine")
@pytest.mark.parametrize("place", ["o200k_base.tiktoken", f"kept/{o200k.KEPT}"])
def test_the_vocabulary_is_found_in_both_places(tmp_path: Path, place: str) -> None:
    assert HERE is not None
    (tmp_path / place).parent.mkdir(exist_ok=True)
    shutil.copy(HERE, tmp_path / place)
    before = dict(os.environ)
    encoding = o200k.encoding(tmp_path, download=False)
    assert encoding is not None
    assert dict(os.environ) == before
    assert encoding.encode("hello world") == [24912, 2375]
    assert o200k.lengths(encoding, [["hello world", "hello"], [], ["<|endoftext|>"]]) == [3, 0, 7]
