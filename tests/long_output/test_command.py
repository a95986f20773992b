"""``python -m validate long-output``: what it refuses, what it runs, and what nox makes of several exit codes."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.long_output.made_up import arms
from tests.support import ROOT, Tool
from validate.equivalence import arm as arm_sets
from validate.equivalence import detection, whole
from validate.errors import InputError
from validate.faults import engine
from validate.long_output.command import LongOutput, run
from validate.records import arm_folder
from validate.records.arm_folder import Arm
from validate.report.console import console

NO_URLS: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())


def test_what_cannot_be_run_is_refused_in_one_line(tool: Tool) -> None:
    assert "has no table long" in tool.refused("long-output", "cpu-bf16")
    assert "name its servers" in tool.refused("long-output", "long-gb300-tp8")
    assert "give it with --faults" in tool.refused("long-output", "-k", "loops")
    assert "holds no run of long-output" in tool.refused("long-output", "--resume", ".")
    assert "selects none of the faults that long-cpu shows" in tool.refused("long-output", "--faults", "-k", "nothing-like-it")
    assert not (tool.cwd / "runs").exists()


def test_the_sets_differ_in_ranks_alone_and_force_what_was_decoded_freely() -> None:
    one, other = (arm_sets.load(f"long-gb300-tp{n}") for n in (8, 16))
    assert one.scenes == other.scenes
    assert one.long == other.long
    for name in ("long-cpu", "long-gb300-tp8", "long-gb300-tp16"):
        made = arm_sets.load(name)
        assert made.long is not None
        assert [scene.name for scene in made.scenes] == ["canary-fresh", "long", "canary-after", "replayed"]
    with_drafts = [arm_sets.load(f"long-gb300-tp{n}-dspark") for n in (8, 16)]
    assert with_drafts[0].scenes == with_drafts[1].scenes
    assert with_drafts[0].engine == one.engine | {"enable_trace_replay": False} | {
        name: value for name, value in arm_sets.load("gb300-tp8-dspark").engine.items() if name not in one.engine
    }


def test_a_table_that_names_no_scene_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text('base = "long-cpu"\ndescription = ""\n[long]\noutputs = "lang"\n')
    with pytest.raises(InputError, match=r"long\.outputs: there is no scene lang"):
        arm_sets.load(str(tmp_path / "bad.toml"))


def test_turns_are_for_the_stand_in_alone(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text('base = "long-cpu"\ndescription = ""\nstand_in = false\n')
    with pytest.raises(InputError, match="turns are dictated to the stand-in alone"):
        arm_sets.load(str(tmp_path / "bad.toml"))


def test_long_faults_are_shown_by_long_sets_alone() -> None:
    faults, elsewhere = detection.chosen(arm_sets.load("long-cpu"), None)
    assert len(faults) >= 8
    assert {fault.shown for fault in faults} == {"long"}
    assert "long" not in {fault.shown for fault in elsewhere}
    assert "long" not in {fault.shown for fault in detection.chosen(arm_sets.load("cpu-bf16"), None)[0]}
    assert {fault.shown for fault in detection.chosen(arm_sets.load("long-cpu-fp32"), None)[0]} == {"long in float32"}
    assert {fault.name for fault in faults} == {name for name, one in engine.catalogue().items() if one.shown == "long"}


def kept(there: Path, arm: Arm) -> None:
    folder = there / arm.manifest.name
    folder.mkdir(parents=True)
    arm_folder.write_manifest(folder, arm.manifest)
    arm_folder.keep(folder, arm.transcripts)
    if arm.steps is not None:
        arm_folder.write_steps(folder, arm.steps)


@pytest.fixture
def begun(tmp_path: Path) -> LongOutput:
    """A run with all arms recorded."""
    begun = whole.begin(tmp_path, whole.Begun(arm_set="long-cpu"), arm_sets.load("long-cpu"), console(), LongOutput)
    made = arms()
    assert made.float32 is not None
    for arm in (*made, made.float32):
        kept(begun.there, arm)
    assert isinstance(begun, LongOutput)
    return begun


def test_recorded_arms_are_compared_and_the_reports_written(begun: LongOutput, capsys: pytest.CaptureFixture[str]) -> None:
    assert begun.run() == 0
    (folder,) = begun.there.glob("*-compare")
    assert {path.name for path in folder.iterdir()} == {"comparison.json", "summary.md", "junit.xml", "SHA256SUMS"}
    assert "canaries" in (folder / "junit.xml").read_text()
    assert "PASS" in capsys.readouterr().out


def test_an_arm_that_waits_for_its_server_leaves_the_run_invalid(begun: LongOutput, capsys: pytest.CaptureFixture[str]) -> None:
    there = begun.there / "specialized"
    arm_folder.write_manifest(there, arm_folder.manifest(there).model_copy(update={"end": None}))
    code = run("long-cpu", None, False, Path("."), begun.there, (("http://127.0.0.1:9",), ()), console())
    assert code == 3
    again = f"go on with: python -m validate long-output long-cpu --resume {begun.there} --default-url http://127.0.0.1:9"
    assert f"specialized not recorded yet; {again} --specialized-url URL\n" in capsys.readouterr().out


def test_a_server_that_is_not_there_is_one_line_with_the_command_that_goes_on(tool: Tool) -> None:
    said = tool.refused("long-output", "long-gb300-tp8", "--default-url", "http://127.0.0.1:9")
    assert "http://127.0.0.1:9 cannot be reached" in said
    (run,) = (tool.cwd / "runs").iterdir()
    assert said.rstrip().endswith(f"long-output long-gb300-tp8 --resume runs/{run.name} --default-url http://127.0.0.1:9")


@pytest.fixture(scope="module")
def noxfile() -> ModuleType:
    pytest.importorskip("nox")
    spec = importlib.util.spec_from_file_location("noxfile", ROOT / "noxfile.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("codes", "wanted"),
    [([0, 0], 0), ([0, 2], 2), ([2, 3], 3), ([3, 1], 1), ([1, 130], 130), ([0, -9], -9), ([], 0)],
)
def test_the_worst_exit_code_of_the_parts_is_the_sessions(noxfile: ModuleType, codes: list[int], wanted: int) -> None:
    assert noxfile.worst(codes) == wanted


def test_faults_are_recorded_in_all_scenes_and_judged_by_this_comparison(begun: LongOutput) -> None:
    asked = begun.faults()
    assert detection.keyword(asked.arms) is None
    assert asked.float32 is not None
    assert asked.judge(arms()).tokens == {}
    assert "512 tokens" in asked.words
