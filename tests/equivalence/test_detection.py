"""The detection matrix of whole engines: what is selected, kept and said; and one fault in vLLM's own engine."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.equivalence.doubles import Double, arm_set
from tests.support import ROOT, Tool
from validate.equivalence import detection, record
from validate.equivalence.arm import ArmSet, Name
from validate.errors import InputError
from validate.faults import engine
from validate.records import arm_folder
from validate.records.detection import Detected, Detection
from validate.report.console import console
from validate.verdict import Verdict

TWO = {"kind": "together", "name": "decode", "sizes": [4, 5, 8], "lengths": [3, 5], "tokens": 4, "decode_only": True}
FORCED = {"kind": "forced", "name": "forced", "of": ["decode"]}
ARMS = arm_set(TWO, FORCED, stand_in=True)


def row(name: str, tokens: dict[str, int], common: int | None = None) -> Detected:
    first = min(tokens, key=lambda check: tokens[check], default="")
    return Detected(name=name, stands_for="a bug", tokens=tokens, first=first, common_practice=common, decoded=99, seconds=12.3)


def matrix(sound: Detected, *faults: Detected) -> Detection:
    return Detection(
        arms="a",
        default="d",
        again="e",
        scenes=("s",),
        source="0",
        commit=None,
        sound=sound,
        faults=faults,
        elsewhere=("x (drafts)",),
    )


SOUND = row("sound", {})


@pytest.mark.parametrize(
    ("made", "verdict"),
    [
        (matrix(SOUND, row("a", {"tokens": 7})), Verdict.PASS),
        (matrix(SOUND, row("a", {"tokens": 7}), row("b", {})), Verdict.FAIL),
        (matrix(row("sound", {"forced": 3}), row("a", {"tokens": 7})), Verdict.FAIL),
    ],
)
def test_a_missed_fault_and_a_found_control_fail(made: Detection, verdict: Verdict) -> None:
    assert made.verdict is verdict
    assert Detection.model_validate_json(made.model_dump_json()) == made


def test_the_matrix_says_what_found_and_what_did_not() -> None:
    text = detection.render(matrix(SOUND, row("a", {"tokens": 7, "forced": 3}, common=8), row("b", {})))
    assert "FAIL: 1 of 2 planted faults found, 1 by the common comparison; the sound control is not found" in text
    assert "| a | forced | 3 | tokens 7 | 8 | 99 | 12 | a bug |" in text
    assert "| b | MISSED |  |  |  | 99 | 12 | a bug |" in text
    assert "x (drafts)" in text


def test_an_arm_set_shows_its_own_faults() -> None:
    own, elsewhere = detection.chosen(ARMS, None)
    assert {fault.shown for fault in own} == {"bfloat16"}
    assert len(own) + len(elsewhere) == len(engine.catalogue())
    wide = arm_set(TWO, stand_in=True, engine=ARMS.engine | {"dtype": "float32"})
    assert [fault.name for fault in detection.chosen(wide, "rounding")[0]] == ["one-head-one-rounding"]
    drafts = arm_set(TWO, stand_in=True, engine=ARMS.engine | {"speculative_config": {"method": "ngram"}})
    assert {fault.shown for fault in detection.chosen(drafts, None)[0]} == {"drafts"}
    with pytest.raises(InputError, match="-k 'rounding' selects none of the faults that test shows"):
        detection.chosen(ARMS, "rounding")
    with pytest.raises(InputError, match="no arm set of the stand-in"):
        detection.chosen(arm_set(TWO), None)


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(name: Name, there: str, arms: ArmSet = ARMS, **fields: Any) -> Path:
        double = Double(path="specialized" if name == "specialized" else "default")
        monkeypatch.setattr(record, "InProcess", lambda *_: double)
        record.record(record.Asked("test.toml", arms, name, tmp_path / there, **fields), console())
        return next((tmp_path / there).iterdir())

    return run


def test_a_record_of_more_scenes_serves_as_one_of_these(recorded: Any) -> None:
    whole, few = recorded("default", "whole"), recorded("default", "few", keyword=detection.SCENES)
    scenes = detection.selected(ARMS, arm_folder.read(whole))
    assert [scene.name for scene in scenes] == ["decode-5", "decode-8", "forced-decode-5", "forced-decode-8"]
    made, wanted = detection.reduced(arm_folder.read(whole), scenes), arm_folder.read(few)
    same = {"start", "end"}
    assert made.manifest.model_dump(exclude=same) == wanted.manifest.model_dump(exclude=same)
    assert [one.key for one in made.transcripts] == [one.key for one in wanted.transcripts]
    assert made.steps == wanted.steps


def test_other_scenes_are_refused(recorded: Any) -> None:
    whole = arm_folder.read(recorded("default", "whole"))
    with pytest.raises(InputError, match="does not record the scenes of test as they are now"):
        detection.selected(arm_set({**TWO, "tokens": 5}, FORCED, stand_in=True), whole)
    lacking = arm_folder.read(recorded("default", "few", keyword="decode-4"))
    with pytest.raises(InputError, match="has no scene decode-5"):
        detection.selected(ARMS, lacking)


def test_a_matrix_is_resumed_and_says_what_was_not_recorded(
    recorded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    default, again = recorded("default", "a"), recorded("default-again", "b", force_from=next((tmp_path / "a").iterdir()))
    there = tmp_path / "out"
    there.mkdir()
    asked = detection.Asked("test.toml", ARMS, default, again, there, None, "router-bias-ignored or nan-in")
    begun: list[str] = []

    def faulty(asked: detection.Asked, there: Path, name: str, running: Any) -> str | None:
        begun.append(name)
        if name == "nan-in-one-request" and begun.count(name) == 1:
            return "error: the machine is on fire"
        double = Double(
            path="default" if name == "router-bias-ignored" else "specialized", logprob=float("nan") if "nan" in name else -0.5
        )
        monkeypatch.setattr(record, "InProcess", lambda *_: double)
        plant = None if name == detection.SOUND else name
        record.record(record.Asked("", ARMS, "specialized", there, (), None, default, detection.SCENES, plant), console())
        return None

    monkeypatch.setattr(detection, "_record", faulty)
    monkeypatch.setattr(detection, "cores", lambda: 1)
    with pytest.raises(InputError, match=r"nan-in-one-request: error: the machine is on fire \(1 of 3 were not recorded"):
        detection.detect(asked, console())
    assert detection.detect(asked, console()) == 0
    assert sorted(begun) == ["nan-in-one-request", "nan-in-one-request", "router-bias-ignored", "sound"]
    made = json.loads((there / "detection.json").read_text())
    assert [(one["name"], one["first"]) for one in made["faults"]] == [
        ("router-bias-ignored", "attestation"),
        ("nan-in-one-request", "finite"),
    ]
    assert (there / "detection.md").read_text().startswith("# test: PASS: 2 of 2 planted faults found")


def test_planting_is_refused_where_there_is_nothing_to_plant_in(tool: Tool) -> None:
    record = ("record", "cpu-bf16", "--arm")
    assert "not in default" in tool.refused(*record, "default", "--plant", "logits-scaled")
    assert "unknown fault 'none'" in tool.refused(*record, "specialized", "--plant", "none")
    assert "in process" in tool.refused(*record, "specialized", "--plant", "logits-scaled", "--url", "http://localhost")
    assert "stand-in" in tool.refused("record", "gb300-tp8", "--arm", "specialized", "--plant", "logits-scaled")


SMALL = """
base = "cpu-bf16"
without = ["alone", "blocks", "chunks", "beyond", "arrivals", "chunked", "dictated", "prefix", "preempted", "slots", "stops"]

[[scenes]]
name = "decode"
kind = "together"
sizes = [5, 8]
lengths = [2, 6]
tokens = 24
decode_only = true

[[scenes]]
name = "forced"
kind = "forced"
of = ["decode"]
"""


@pytest.mark.engine
def test_one_fault_in_vllms_own_engine(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL)

    def ran(*arguments: str) -> str:
        command = [sys.executable, "-m", "validate", *arguments]
        there = os.environ | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=ROOT, env=there, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stdout + done.stderr[-3000:]
        return done.stdout

    small, out = str(tmp_path / "small.toml"), ("--output", str(tmp_path / "out"))
    said = ran("equivalence", small, "--faults", *out, "-k", "taps-of-wrong-offset")
    assert "1 of 1 planted faults found" in said
    made = json.loads(next((tmp_path / "out").glob("*/detection.json")).read_text())
    planted = arm_folder.read(next((tmp_path / "out").glob("*/taps-of-wrong-offset/*/manifest.json")).parent)
    assert planted.manifest.planted == "taps-of-wrong-offset"
    assert not made["sound"]["tokens"]
