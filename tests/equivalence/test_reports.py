"""A comparison's folder, and the command that makes it."""

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.equivalence.faults import FAULTS
from tests.equivalence.toy import Arms, Plan, arms, quiet_arms, steps
from tests.support import Tool
from validate.equivalence.compare import junit
from validate.equivalence.compare.comparison import Comparison, compare
from validate.equivalence.compare.summary import render
from validate.equivalence.compare.timings import timings
from validate.records import arm_folder
from validate.records.arm_folder import Arm
from validate.verdict import Verdict


def written(arm: Arm, folder: Path) -> Path:
    folder.mkdir()
    arm_folder.write_manifest(folder, arm.manifest)
    arm_folder.append(folder, arm.transcripts)
    assert arm.steps is not None
    arm_folder.write_steps(folder, arm.steps)
    return folder


@pytest.fixture(scope="module")
def failed() -> Comparison:
    found = arms(fault=FAULTS["stale_after_preemption"])
    planted = found.specialized.manifest.model_copy(update={"planted": "stale_after_preemption"})
    return compare(replace(found, specialized=replace(found.specialized, manifest=planted)))


def junit_of(comparison: Comparison) -> str:
    return junit.render("equivalence", comparison.checks, comparison.told)


def test_the_first_screen_of_a_summary(sound: Arms) -> None:
    text = render(compare(sound))
    assert text.startswith("# PASS: specialized against default")
    head = "\n".join(text.splitlines()[:30])
    for part in (
        "the stand-in",
        "on CPU (toy)",
        "can not sign off a release",
        "97 of 100 decode and verify steps",
        "| alone | yes |",
    ):
        assert part in head
    assert "acceptance | not run" in text


def test_a_summary_of_gb300(sound: Arms) -> None:
    machine = sound.default.manifest.machine.model_copy(update={"gpus": ("NVIDIA GB300, 580.1, 10.3",) * 4})
    other = Arms(*(replace(a, manifest=a.manifest.model_copy(update={"machine": machine, "stand_in": False})) for a in sound))
    text = render(compare(other))
    assert "What ran: **Kimi K3 in vLLM, on NVIDIA GB300**" in text
    assert "stand-in" not in text


def test_a_summary_with_the_float32_arm() -> None:
    text = render(compare(quiet_arms(1.0)))
    assert text.startswith("# PASS: specialized against default")
    assert "Allowed is the greater of 2.24 times the float32 figure" in text
    assert "| specialized | float32 | allowed |" in text
    assert "- float32: decode_backend auto" in text


def test_a_failure_in_a_summary(failed: Comparison) -> None:
    text = render(failed)
    assert text.startswith("# FAIL")
    assert "The fault `stale_after_preemption` was planted in specialized" in text
    assert "rerun:" not in text  # it would run without the fault
    assert "rerun: nox -s equivalence -- toy -k 'preempted or alone'" in render(
        compare(arms(fault=FAULTS["stale_after_preemption"]))
    )


def test_junit(sound: Arms, failed: Comparison) -> None:
    suite = ET.fromstring(junit_of(failed)).find("testsuite")
    assert suite is not None
    assert (suite.get("failures"), suite.get("skipped")) == ("2", "1")
    inconclusive = ET.fromstring(junit_of(compare(replace(sound, specialized=replace(sound.specialized, steps=None)))))
    assert inconclusive.find(".//error[@type='INVALID']") is not None


def test_times_are_kept_apart_and_judge_nothing(sound: Arms) -> None:
    found = {(t.scene, t.figure): t for t in timings(sound.pairs())}
    assert len(found) == 5 * 4
    slow = [
        t.model_copy(update={"times": t.times.model_copy(update={"intervals": tuple(3 * v for v in t.times.intervals)})})
        for t in sound.specialized.transcripts
        if t.times
    ]
    comparison = compare(replace(sound, specialized=replace(sound.specialized, transcripts=tuple(slow))))
    assert comparison.verdict is Verdict.PASS
    ratios = {t.figure: t.ratio for t in comparison.timings if t.scene == "alone"}
    assert all(t.specialized == pytest.approx(t.ratio * t.default) for t in comparison.timings)
    assert ratios["inter-token latency, ms"] == pytest.approx(3, rel=0.2)
    assert ratios["decode, tokens/s a request"] == pytest.approx(1 / 3, rel=0.2)
    assert ratios["time to first token, ms"] == 1


def test_the_command(tool: Tool, sound: Arms, tmp_path: Path) -> None:
    folders = [written(arm, tmp_path / name) for arm, name in zip(sound, "das", strict=True)]
    done = tool("compare", *map(str, folders))
    assert (done.returncode, done.stderr) == (0, "")
    (made,) = (tool.cwd / "runs").iterdir()
    assert {path.name for path in made.iterdir()} == {"comparison.json", "summary.md", "junit.xml", "SHA256SUMS"}
    assert json.loads((made / "comparison.json").read_text())["verdict"] == "PASS"
    Comparison.model_validate_json((made / "comparison.json").read_text())
    assert "What ran: the stand-in" in done.stdout
    arm_folder.write_steps(folders[2], steps(Plan(), specialized=False))
    assert tool("compare", *map(str, folders), "--output", "other").returncode == 3


def test_a_damaged_record_is_one_line(tool: Tool, sound: Arms, tmp_path: Path) -> None:
    folders = [written(arm, tmp_path / name) for arm, name in zip(sound, "das", strict=True)]
    path = folders[1] / arm_folder.TRANSCRIPTS
    path.write_text(path.read_text()[:-5])
    assert "truncated" in tool.refused("compare", *map(str, folders))
    assert "no run record" in tool.refused("compare", "nowhere", *map(str, folders[1:]))
