"""Records of arms: what is written is read back, an interrupted recording goes on, damage is named by file and line."""

from pathlib import Path

import pytest

from tests.equivalence.toy import Plan, manifest, steps
from validate.errors import InputError
from validate.records import arm_folder
from validate.records.arm import Top, Transcript


def transcript(request: str, **fields: object) -> Transcript:
    answer = {"tokens": (3,), "logprobs": (-0.5,), "top": (Top(ids=(3, 4), logprobs=(-0.5, -1.5)),), "finish": "stop"}
    return Transcript.model_validate({"scene": "alone", "request": request, "kind": "greedy", "prompt": (1, 2)} | answer | fields)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    arm_folder.write_manifest(tmp_path, manifest("default", "auto", Plan()))
    arm_folder.append(tmp_path, [transcript("a"), transcript("b")])
    return tmp_path


def test_round_trip(folder: Path) -> None:
    counted = steps(Plan(), specialized=True)
    arm_folder.write_steps(folder, counted)
    read = arm_folder.read(folder)
    assert (read.manifest, read.steps) == (manifest("default", "auto", Plan()), counted)
    assert read.transcripts == (transcript("a"), transcript("b"))


def test_an_arm_without_an_account_of_its_steps(folder: Path) -> None:
    assert arm_folder.read(folder).steps is None


def test_logprobs_that_are_no_numbers_are_kept(folder: Path) -> None:
    arm_folder.append(folder, [transcript("c", logprobs=(float("-inf"),)), transcript("d", logprobs=(float("nan"),))])
    read = arm_folder.read(folder).transcripts
    assert read[2].logprobs == (float("-inf"),)
    assert read[3].logprobs[0] != read[3].logprobs[0]


def test_truncated_last_line(folder: Path) -> None:
    path = folder / arm_folder.TRANSCRIPTS
    path.write_text(path.read_text()[:-9])
    with pytest.raises(InputError, match=r"transcripts.jsonl, line 2: truncated; resume"):
        arm_folder.read(folder)
    left = arm_folder.read(folder, mend=True).transcripts
    assert left == (transcript("a"),)
    arm_folder.keep(folder, left)
    arm_folder.append(folder, [transcript("b")])
    assert len(arm_folder.read(folder).transcripts) == 2


def test_a_request_that_failed_is_asked_again(folder: Path) -> None:
    arm_folder.append(folder, [transcript("c", error="connection reset")])
    assert arm_folder.read(folder).transcripts[2].error == "connection reset"
    left = arm_folder.read(folder, mend=True).transcripts
    assert len(left) == 2
    arm_folder.keep(folder, left)
    arm_folder.append(folder, [transcript("c", error="connection reset"), transcript("c")])
    assert [t.error for t in arm_folder.read(folder).transcripts] == [None, None, None]


def test_resuming_before_anything_is_recorded(folder: Path) -> None:
    (folder / arm_folder.TRANSCRIPTS).unlink()
    assert arm_folder.read(folder, mend=True).transcripts == ()
    with pytest.raises(InputError, match="no run record"):
        arm_folder.read(folder)


def test_a_request_recorded_twice(folder: Path) -> None:
    arm_folder.append(folder, [transcript("a")])
    with pytest.raises(InputError, match=r"line 3: request alone/a a second time"):
        arm_folder.read(folder)
    with pytest.raises(InputError, match="a second time"):
        arm_folder.read(folder, mend=True)


def test_damage_is_named(folder: Path) -> None:
    path = folder / arm_folder.TRANSCRIPTS
    path.write_text(path.read_text().replace('"greedy"', '"greedily"', 1))
    with pytest.raises(InputError, match=r"transcripts.jsonl, line 1: kind"):
        arm_folder.read(folder)


def test_steps_that_are_damaged(folder: Path) -> None:
    (folder / arm_folder.STEPS).write_text("{")
    with pytest.raises(InputError, match=r"steps.json"):
        arm_folder.read(folder)


def test_another_schema_version(folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 2'))
    with pytest.raises(InputError, match="schema version 2, this version reads 1"):
        arm_folder.read(folder)


def test_no_record(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run record"):
        arm_folder.read(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("own", "texts", "said"),
    [
        (((0, 1), (0, 1)), ("a",), "2 stretches of its own, and 1 texts of them"),
        (((0, 9),), ("a",), "a stretch of its own lies beyond its 1 tokens"),
        (((1, 0),), ("a",), "a stretch of its own lies beyond its 1 tokens"),
    ],
)
def test_stretches_that_do_not_fit_are_damage(folder: Path, own: object, texts: object, said: str) -> None:
    damaged = transcript("c").model_copy(update={"own": own, "texts": texts})
    arm_folder.append(folder, [damaged])
    with pytest.raises(InputError, match=rf"transcripts.jsonl, line 3: .*{said}"):
        arm_folder.read(folder)
