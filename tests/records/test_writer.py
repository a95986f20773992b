"""One writer at a time, and what it leaves is sealed."""

from pathlib import Path

import pytest

from validate.errors import InputError
from validate.records import folder as records
from validate.records import seal, writer


def test_two_processes_do_not_write_to_one_folder(tmp_path: Path) -> None:
    with writer.alone(tmp_path):
        with pytest.raises(InputError, match="another process writes to "), writer.alone(tmp_path):
            pass
        with writer.alone(records.create(tmp_path, "other")):
            pass
    with writer.alone(tmp_path):
        pass


def test_what_a_writer_leaves_is_sealed_and_not_before(tmp_path: Path) -> None:
    with writer.alone(tmp_path):
        records.write(tmp_path, "lines.jsonl", "one\n")
        with pytest.raises(InputError, match="it runs still, or was killed"):
            seal.altered(tmp_path)
    assert seal.altered(tmp_path) == []
    first = seal.digest(tmp_path)
    with writer.alone(tmp_path):
        assert not (tmp_path / seal.SUMS).exists()
        records.write(tmp_path, "lines.jsonl", "one\ntwo\n")
    assert seal.altered(tmp_path) == []
    assert seal.digest(tmp_path) != first


def test_an_interrupted_writer_seals_what_it_has(tmp_path: Path) -> None:
    def interrupted() -> None:
        with writer.alone(tmp_path):
            records.write(tmp_path, "lines.jsonl", "one\n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert seal.altered(tmp_path) == []
