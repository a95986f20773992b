"""Records from folders: each is verified, and one that was altered or is of another version is refused by name."""

import json
import os
import shutil
from pathlib import Path

import pytest

from validate.errors import InputError
from validate.races import session
from validate.races.record import Asked
from validate.records import seal
from validate.report.console import console
from validate.signoff import session as signoff
from validate.signoff.reading.gathering import gathered


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the races, and one with every fault planted."""
    output = tmp_path_factory.mktemp("runs")
    for faults in (False, True):
        session.run(session.begin(Asked(keyword="two_shot", faults=faults, walks=2, limit=3000), output), 2, console())
    return output


@pytest.fixture
def runs(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "runs")


def test_a_run_and_its_planted_faults_are_told_apart(runs: Path) -> None:
    found = gathered([runs])
    assert [one.part for one in found.evidence] == ["protocol models"]
    assert [one.planted for one in found.matrices] == [len(found.matrices[0].rows)]
    assert found.evidence[0].source.verified


def test_a_record_that_was_altered_is_refused_by_name(runs: Path) -> None:
    file = next(runs.glob("*/explored.jsonl"))
    file.write_text(file.read_text().replace("seconds", "Seconds"))
    with pytest.raises(InputError, match=rf"{file.parent.name} was altered after the run: explored.jsonl was changed"):
        gathered([runs])


def test_a_record_of_another_version_is_refused_by_name(runs: Path) -> None:
    file = next(runs.glob("*/manifest.json"))
    file.write_text(json.dumps(json.loads(file.read_text()) | {"schema_version": 2}))
    seal.seal(file.parent)
    with pytest.raises(InputError, match=rf"{file.parent.name}/manifest.json: schema version 2, this version reads 1"):
        gathered([runs])


def test_a_record_that_was_killed_is_refused(runs: Path) -> None:
    next(runs.glob("*/SHA256SUMS")).unlink()
    with pytest.raises(InputError, match="it runs still, or was killed"):
        gathered([runs])


def test_a_folder_without_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no run record"):
        gathered([tmp_path])


def test_a_record_named_twice_counts_once(runs: Path) -> None:
    assert len(gathered([runs, next(runs.glob("*/manifest.json")).parent]).evidence) == 1


def test_a_record_behind_a_link_counts(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    for there in runs.iterdir():
        (tmp_path / "links" / there.name).symlink_to(there)
    found = gathered([runs])
    assert gathered([tmp_path / "links"]) == found
    (runs / "round").symlink_to(runs)
    assert gathered([runs]) == found


def test_a_folder_that_cannot_be_looked_into_is_named(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = str(next(runs.iterdir()))
    real = os.scandir

    def scandir(path: object) -> object:
        if str(path) == hidden:
            raise PermissionError(13, "Permission denied", hidden)
        return real(path)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(InputError, match=f"cannot read {hidden}: Permission denied"):
        gathered([runs])


@pytest.mark.parametrize(
    ("asked", "says"),
    [(None, "its arguments are no table"), ([], "its arguments are no table"), ({}, None), ({"walks": "many"}, "asked.walks")],
)
def test_arguments_that_are_none_are_one_line(runs: Path, asked: object, says: str | None) -> None:
    file = next(runs.glob("*/manifest.json"))
    file.write_text(json.dumps(json.loads(file.read_text()) | {"asked": asked}))
    seal.seal(file.parent)
    if says is None:
        assert gathered([runs])
        return
    with pytest.raises(InputError, match=says):
        gathered([runs])


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("comparison.json", '{"layer": "taste"}', "a comparison of the layer taste, which is not known"),
        ("comparison.json", '{"layer": "evals", "arms": null, "folders": [], "records": []}', "damaged: TypeError"),
        ("manifest.json", "[" * 100_000, "recursion"),
        ("manifest.json", '{"layer": "unheard"}', None),
    ],
)
def test_what_is_damaged_or_not_known_is_named(tmp_path: Path, name: str, content: str, says: str | None) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).write_text(content)
    seal.seal(tmp_path / "run")
    if says is None:
        assert gathered([tmp_path]).left_out == ("run",)
        return
    with pytest.raises(InputError, match=says):
        gathered([tmp_path])


def test_what_is_no_folder_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere is no folder"):
        gathered([tmp_path / "nowhere"])


def test_an_image_is_asked_for_by_its_digest(runs: Path) -> None:
    for image in ("", "vllm:latest", "sha256:1"):
        with pytest.raises(InputError, match=f"--image '{image}': a digest is wanted"):
            signoff.run([runs], image, runs, console())
