"""All arms of a set, recorded by a stand-in for the recorder and compared: order, failures, resumption, golden arms, bless."""

import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.equivalence.doubles import arm_set
from tests.equivalence.faults import FAULTS
from tests.equivalence.toy import Arms, Plan, arms, quiet_arms, steps
from tests.support import ROOT
from validate.equivalence import detection, whole
from validate.equivalence.whole import Begun
from validate.errors import InputError
from validate.records import arm_folder, seal
from validate.records.arm_folder import Arm
from validate.report.console import console

RECORDER = (sys.executable, "-m", "tests.equivalence.recorder")
NAMES = ("default", "default-again", "specialized")
SMALL = Plan(requests=2, tokens=8)  # for what does not depend on the verdict, which is INCONCLUSIVE
# In float32: three arms.
ENGINE = {"max_model_len": 200, "max_num_batched_tokens": 40, "max_num_seqs": 4, "dtype": "float32"}
FILE = """
description = ""
model = "none"
stand_in = true
layers = 1
attn_res_block = 1
prompt_ids = [3, 90]
engine = { max_model_len = 200, max_num_batched_tokens = 40, max_num_seqs = 4, dtype = "float32" }
scenes = [{ kind = "alone", name = "alone", lengths = [3] }]
"""
COMMAND = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell started the tests in the background
from validate import cli
from validate.equivalence import detection, whole
whole.COMMAND = tuple(sys.argv.pop(1).split())
cli.main()
"""


class Stage:
    """A folder to run in, the arms that are prepared for the recorder, and what it was called with."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.prepared, self.arms = folder, folder / "prepared", arm_set(name="toy", stand_in=True, engine=ENGINE)

    def prepare(self, made: Arms) -> None:
        for arm in (*made, made.float32):
            if arm is not None:
                write(self.prepared / arm.manifest.name, arm)

    def trouble(self, name: str, what: str) -> None:
        (self.prepared / f"{name}.trouble").write_text(what)

    def calls(self) -> list[Any]:
        """Arm, arguments and the arms at its side of each recording since the last call of this."""
        path = self.prepared / "calls"
        found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        path.unlink(missing_ok=True)
        return found

    def begin(self, keyword: str | None = None, golden: bool = False, **fields: Any) -> whole.Whole:
        arms = self.arms.model_copy(update=fields)
        return whole.begin(Path("runs"), Begun(arm_set="toy.toml", keyword=keyword, golden=golden), arms, console())

    def resume(self, there: Path) -> whole.Whole:
        return whole.resume(there, Begun(arm_set="toy.toml"), self.arms, console())

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """``python -m validate`` with the recorder."""
        (self.folder / "toy.toml").write_text(FILE)
        command = [sys.executable, "-c", COMMAND, " ".join(RECORDER), *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def write(there: Path, arm: Arm) -> None:
    there.mkdir(parents=True)
    arm_folder.write_manifest(there, arm.manifest)
    arm_folder.keep(there, arm.transcripts)
    assert arm.steps is not None
    arm_folder.write_steps(there, arm.steps)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    made = Stage(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PREPARED", str(made.prepared))
    monkeypatch.setattr(whole, "COMMAND", RECORDER)
    made.prepare(arms(SMALL))
    return made


def contents(there: Path) -> dict[str, bytes]:
    files = [path for path in there.rglob("*") if path.is_file() and path.name != seal.SUMS]
    return {str(path.relative_to(there)): path.read_bytes() for path in files}


def without_steps(made: Arms) -> Arms:
    fell_back = steps(Plan(), specialized=False)
    return replace(made, specialized=replace(made.specialized, steps=fell_back))


@pytest.mark.parametrize(
    ("verdict", "code"), [("PASS", 0), ("FAIL", 1), ("INCONCLUSIVE", 2), ("INVALID", 3)], ids=lambda value: str(value)
)
def test_three_arms_are_recorded_and_judged(
    stage: Stage, sound: Arms, capsys: pytest.CaptureFixture[str], verdict: str, code: int
) -> None:
    if verdict != "INCONCLUSIVE":
        shutil.rmtree(stage.prepared)
        made = arms(fault=FAULTS["stale_after_preemption"]) if verdict == "FAIL" else sound
        stage.prepare(without_steps(made) if verdict == "INVALID" else made)
    run = stage.begin()
    assert run.run() == code
    assert sorted(name for name, *_ in stage.calls()) == list(NAMES)
    (compared,) = run.there.glob("*-compare/comparison.json")
    assert json.loads(compared.read_text())["verdict"] == verdict
    said = capsys.readouterr().out
    assert f"{verdict}  {compared.parent}" in said
    assert "specialized: " in said  # what the recordings print


def test_the_default_arm_is_first_and_the_others_run_side_by_side(stage: Stage) -> None:
    stage.trouble("default-again", "meets")
    stage.trouble("specialized", "meets")
    run = stage.begin()
    run.run()
    first, *others = stage.calls()
    assert first == ["default", {"arm_set": "toy.toml"}, []]
    default = str(next(run.there.glob("*-toy-default")))
    given = {"arm_set": "toy.toml", "force_from": default}
    assert sorted(others) == [["default-again", given, ["specialized"]], ["specialized", given, ["default-again"]]]


def test_of_a_stand_in_that_rounds_the_float32_arm_is_recorded_too(stage: Stage) -> None:
    shutil.rmtree(stage.prepared)
    stage.prepare(quiet_arms(1.0, plan=Plan(requests=6, tokens=32)))
    forcing = arm_set(
        {"kind": "alone", "name": "alone", "lengths": [3]},
        {"kind": "forced", "name": "forced", "of": ["alone"]},
        name="toy",
        stand_in=True,
    )
    stage.arms = forcing
    run = stage.begin()
    assert run.run() == 0
    assert sorted(name for name, *_ in stage.calls()) == sorted([*NAMES, "float32"])
    (compared,) = run.there.glob("*-compare/comparison.json")
    found = json.loads(compared.read_text())
    assert found["noise"] == "float32"
    assert found["folders"][3].endswith("-toy-float32")
    whole.bless(run.there, console())
    assert sorted(path.name for path in (whole.GOLDEN / "toy").iterdir()) == ["default", "default-again", "float32"]
    golden = stage.begin(golden=True)
    assert golden.run() == 0
    assert [name for name, *_ in stage.calls()] == ["specialized"]
    (compared,) = golden.there.glob("*-compare/comparison.json")
    assert json.loads(compared.read_text())["folders"][3] == "golden/transcripts/toy/float32"
    shutil.rmtree(whole.GOLDEN / "toy" / "float32")
    with pytest.raises(InputError, match="golden/transcripts/toy holds no arm float32"):
        stage.begin(golden=True)
    (float32,) = run.there.glob("*-toy-float32")
    arm_folder.write_manifest(float32, arm_folder.manifest(float32).model_copy(update={"model": "another"}))
    with pytest.raises(InputError, match="its default arms are of different engines: model: "):
        whole.bless(run.there, console())


def test_faults_are_looked_for_beside_default_arms_of_the_same_run(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[detection.Asked] = []
    monkeypatch.setattr(detection, "detect", lambda given, out: asked.append(given) or 1)
    run = whole.begin(Path("runs"), Begun(arm_set="toy.toml", keyword="state-in-bf16", faults=True), stage.arms, console())
    assert run.run() == 1
    assert whole.resume(run.there, Begun(arm_set="toy.toml"), stage.arms, console()).run() == 1  # nothing is recorded again
    default, again = (next(run.there.glob(f"*-toy-{name}")) for name in ("default", "default-again"))
    chosen = {"arm_set": "toy.toml", "k": detection.SCENES}
    assert stage.calls() == [["default", chosen, []], ["default-again", {**chosen, "force_from": str(default)}, []]]
    assert asked == [detection.Asked("toy.toml", stage.arms, default, again, run.there, None, "state-in-bf16")] * 2


def test_faults_that_cannot_be_looked_for_are_refused_before_anything_is_recorded(stage: Stage) -> None:
    for begun, of, said in (
        (Begun(arm_set="a", faults=True, golden=True), stage.arms, "--golden cannot be given with --faults"),
        (Begun(arm_set="a", faults=True, keyword="none"), stage.arms, "-k 'none' selects none of the faults"),
        (Begun(arm_set="a", faults=True), stage.arms.model_copy(update={"stand_in": False}), "no arm set of the stand-in"),
    ):
        with pytest.raises(InputError, match=said):
            whole.begin(Path("runs"), begun, of, console())
    assert not Path("runs").exists()
    run = stage.begin()
    with pytest.raises(InputError, match="with --faults: it was begun without"):
        whole.resume(run.there, Begun(arm_set="toy.toml", faults=True), stage.arms, console())


def test_on_gpus_they_wait_for_each_other(stage: Stage) -> None:
    stage.begin(stand_in=False).run()
    assert [(name, beside) for name, _, beside in stage.calls()] == [(name, []) for name in NAMES]


def test_a_keyword_reaches_every_recording(stage: Stage) -> None:
    run = stage.begin("alone or eight")
    run.run()
    assert [given["k"] for _, given, _ in stage.calls()] == ["alone or eight"] * 3
    shutil.rmtree(next(run.there.glob("*-toy-specialized")))
    stage.resume(run.there).run()
    assert [(name, given["k"]) for name, given, _ in stage.calls()] == [("specialized", "alone or eight")]


@pytest.mark.parametrize(
    ("what", "said"),
    [("dies", "exit code 3: the engine died; 5 requests are kept"), ("killed", "exit code -9: it said nothing")],
)
def test_a_recording_that_fails_is_one_line_and_is_resumed(stage: Stage, what: str, said: str) -> None:
    stage.trouble("default-again", what)
    run = stage.begin()
    with pytest.raises(InputError) as raised:
        run.run()
    log = f"(all of it: {run.there}/default-again.log)"
    again = f"go on with: python -m validate equivalence toy.toml --resume {run.there}"
    assert str(raised.value) == f"default-again was not recorded, {said} {log}; {again}"
    assert not list(run.there.glob("*-compare"))
    before = {path: contents(path) for path in run.there.glob("*-toy-*")}
    assert sorted(arm_folder.manifest(path).end is not None for path in before) == [False, True, True]
    assert len(stage.calls()) == 3

    (stage.prepared / "default-again.trouble").unlink()
    assert stage.resume(run.there).run() == 2
    ((name, given, _),) = stage.calls()
    cut = next(run.there.glob("*-toy-default-again"))
    assert (name, given["resume"]) == ("default-again", str(cut))
    assert set(run.there.glob("*-toy-*")) == set(before)
    assert all(contents(path) == held for path, held in before.items() if path != cut)


def test_of_a_second_failure_the_log_s_own_lines_are_shown(stage: Stage) -> None:
    stage.trouble("default", "dies")
    run = stage.begin()
    with pytest.raises(InputError, match="the engine died"):
        run.run()
    stage.trouble("default", "killed")
    with pytest.raises(InputError, match="default was not recorded, exit code -9: it said nothing"):
        stage.resume(run.there).run()
    assert [name for name, *_ in stage.calls()] == ["default", "default"]


def test_two_that_fail_are_both_named(stage: Stage) -> None:
    stage.trouble("default-again", "dies")
    stage.trouble("specialized", "dies")
    with pytest.raises(InputError, match=r"^default-again was not .*; specialized was not .*; go on with: \S+") as raised:
        stage.begin().run()
    assert str(raised.value).count("go on with") == 1


def test_of_an_arm_that_proves_nothing_the_comparison_says_so(stage: Stage, sound: Arms) -> None:
    shutil.rmtree(stage.prepared)
    stage.prepare(without_steps(sound))
    stage.trouble("specialized", "proves nothing")
    run = stage.begin()
    assert run.run() == 3
    assert len(list(run.there.glob("*-compare/summary.md"))) == 1


def test_what_was_not_begun_so_is_not_resumed(stage: Stage) -> None:
    run = stage.begin()
    with pytest.raises(InputError, match=r"with the arms of other\.toml: it was begun with toy\.toml"):
        whole.resume(run.there, Begun(arm_set="other.toml"), stage.arms, console())
    with pytest.raises(InputError, match="with --golden: it was begun without"):
        whole.resume(run.there, Begun(arm_set="toy.toml", golden=True), stage.arms, console())
    with pytest.raises(InputError, match="it holds no run of equivalence"):
        stage.resume(stage.prepared)
    assert not stage.calls()


def test_the_command_refuses_another_keyword(stage: Stage) -> None:
    run = stage.begin("alone")
    with stage.start("equivalence", "toy.toml", "--resume", str(run.there), "-k", "eight") as process:
        out, err = process.communicate(timeout=300)
    assert (process.returncode, out, err.count("\n")) == (3, "", 1)
    assert err.startswith("error: -k cannot be given with --resume")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_ends_its_recordings_and_says_how_to_go_on(stage: Stage, number: signal.Signals) -> None:
    stage.trouble("specialized", "waits")
    stage.trouble("default-again", "waits")
    with stage.start("equivalence", "toy.toml") as process:
        end = time.monotonic() + 120
        while len(list(stage.prepared.glob("*.waits"))) < 2 and time.monotonic() < end:
            time.sleep(0.05)
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert {path.stem for path in stage.prepared.glob("*.told")} == {"default-again", "specialized"}
    assert not list(stage.prepared.glob("*.running"))
    (there,) = Path("runs").iterdir()
    assert f"interrupted; what is recorded is kept, go on with: python -m validate equivalence toy.toml --resume {there}\n" in out
    for trouble in stage.prepared.glob("*.trouble"):
        trouble.unlink()
    stage.calls()
    with stage.start("equivalence", "toy.toml", "--resume", str(there)) as process:
        process.communicate(timeout=120)
    assert process.returncode == 2
    assert sorted((name, "resume" in given) for name, given, _ in stage.calls()) == [
        ("default-again", True),
        ("specialized", True),
    ]


def bless(stage: Stage) -> Path:
    run = stage.begin()
    run.run()
    stage.calls()
    assert whole.bless(run.there, console()) == 0
    return run.there


def test_against_golden_arms_one_is_recorded(stage: Stage) -> None:
    bless(stage)
    run = stage.begin(golden=True)
    assert run.run() == 2
    assert stage.calls() == [["specialized", {"arm_set": "toy.toml", "force_from": "golden/transcripts/toy/default"}, []]]
    (compared,) = run.there.glob("*-compare/comparison.json")
    folders = json.loads(compared.read_text())["folders"]
    assert folders[:2] == ["golden/transcripts/toy/default", "golden/transcripts/toy/default-again"]
    shutil.rmtree(next(run.there.glob("*-toy-specialized")))
    stage.resume(run.there).run()  # as it was begun: the default arms are not recorded
    assert [name for name, *_ in stage.calls()] == ["specialized"]


def test_golden_arms_that_lack_or_are_others_are_refused(stage: Stage) -> None:
    with pytest.raises(InputError, match=r"golden/transcripts/toy holds no arm default: .* bless RUN"):
        stage.begin(golden=True)
    bless(stage)
    with pytest.raises(InputError, match="golden/transcripts/other holds no arm default: "):
        stage.begin(golden=True, name="other")
    with pytest.raises(InputError, match="-k cannot be given with --golden"):
        stage.begin("alone", golden=True)
    with pytest.raises(InputError, match="--default-url cannot be given with --golden"):
        whole.begin(Path("runs"), Begun(arm_set="toy", golden=True), stage.arms, console(), urls={"default": ("http://x:1",)})
    shutil.rmtree(whole.GOLDEN / "toy" / "default-again")
    with pytest.raises(InputError, match="holds no arm default-again"):
        stage.begin(golden=True)
    assert not stage.calls()


def test_bless_replaces_both_and_says_what_changes(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    bless(stage)
    assert "default: new, 20 requests\ndefault-again: new, 20 requests\n" in capsys.readouterr().out
    (whole.GOLDEN / "README.md").write_text("kept")
    shutil.rmtree(stage.prepared)
    other = arms(SMALL, noise=0.5)
    versions = {"versions": {"vllm": "1.0"}}
    stage.prepare(Arms(*(replace(arm, manifest=arm.manifest.model_copy(update=versions)) for arm in other)))
    there = bless(stage)
    said = capsys.readouterr().out
    assert "default: 0 requests new, 0 gone; " in said
    assert " of 20 decode other tokens; largest difference of a logprob " in said
    assert "vllm none -> 1.0" in said
    assert (whole.GOLDEN / "README.md").read_text() == "kept"
    for name in ("default", "default-again"):
        assert contents(whole.GOLDEN / "toy" / name) == contents(next(there.glob(f"*-toy-{name}")))
        assert seal.altered(whole.GOLDEN / "toy" / name) == []
    assert sorted(path.name for path in whole.GOLDEN.iterdir()) == ["README.md", "toy"]


def no_end(there: Path) -> None:
    again = next(there.glob("*-toy-default-again"))
    arm_folder.write_manifest(again, arm_folder.manifest(again).model_copy(update={"end": None}))


def too_few(there: Path) -> None:
    again = next(there.glob("*-toy-default-again"))
    arm_folder.keep(again, arm_folder.read(again).transcripts[1:])


def cut(there: Path) -> None:
    path = next(there.glob("*-toy-default-again")) / arm_folder.TRANSCRIPTS
    path.write_text(path.read_text()[:-5])


def twice(there: Path) -> None:
    shutil.copytree(next(there.glob("*-toy-default-again")), there / "another")


def none(there: Path) -> None:
    shutil.rmtree(next(there.glob("*-toy-default-again")))


def other_engine(there: Path) -> None:
    again = next(there.glob("*-toy-default-again"))
    arm_folder.write_manifest(again, arm_folder.manifest(again).model_copy(update={"plan": "another"}))


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (no_end, "the recording of default-again has no end; resume it"),
        (too_few, "19 of 20 requests are recorded"),
        (cut, "truncated"),
        (twice, "holds 2 recordings of the arm default-again"),
        (none, "holds 0 recordings of the arm default-again"),
        (other_engine, "its default arms are of different engines: plan: "),
    ],
)
def test_bless_refuses_and_leaves_what_there_is(stage: Stage, harm: Any, said: str) -> None:
    there = bless(stage)
    before = contents(whole.GOLDEN)
    changed = next(there.glob("*-toy-default"))
    arm_folder.write_manifest(changed, arm_folder.manifest(changed).model_copy(update={"start": "2027-01-01T00:00:00Z"}))
    harm(there)
    with pytest.raises(InputError, match=said):
        whole.bless(there, console())
    assert contents(whole.GOLDEN) == before


def test_a_bless_that_fails_midway_leaves_what_there_is(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    there = bless(stage)
    before = contents(whole.GOLDEN / "toy")
    changed = next(there.glob("*-toy-default"))
    arm_folder.write_manifest(changed, arm_folder.manifest(changed).model_copy(update={"start": "2027-01-01T00:00:00Z"}))
    plain = arm_folder.keep

    def full(folder: Path, transcripts: Any) -> None:
        if folder.name == "default-again":
            raise InputError("cannot write: No space left on device")
        plain(folder, transcripts)

    monkeypatch.setattr(arm_folder, "keep", full)
    with pytest.raises(InputError, match="No space left"):
        whole.bless(there, console())
    assert contents(whole.GOLDEN / "toy") == before
    monkeypatch.undo()
    monkeypatch.chdir(stage.folder)
    whole.bless(there, console())
    assert contents(whole.GOLDEN / "toy") != before
