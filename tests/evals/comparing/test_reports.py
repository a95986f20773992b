"""What a comparison of evals leaves, and the commands that make it. Nothing of any content is in it."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from evals.comparing.comparison import Comparison, compare
from evals.comparing.strata import Stratum
from evals.comparing.summary import render
from evals.grading.response import Outcome
from tests.evals.comparing.arms import Task, ended, write
from tests.support import Tool
from validate.records.model import Machine
from validate.verdict import Verdict

LENGTHS = ("4096-8192", "8192-16384", "16384-32768")


def strata() -> tuple[str, ...]:
    """2 and 8 needles; two of three items are of the first length."""
    return tuple(f"{(2, 8)[item % 2]} needles, {LENGTHS[0 if item % 3 else item // 3 % 3]} tokens" for item in range(90))


def ratios(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random((90, 1))


def record(there: Path, lost: float = 0.0, margin: float = 0.3) -> tuple[Path, Path, Path]:
    right = np.ones((60, 4))
    broken = np.where(np.random.default_rng(0).random((60, 4)) < lost, 0.0, 1.0)
    cut = {(3, 1): ended(Outcome.TRUNCATED, loop=True)}
    needles = [Task("mrcr_openai", ratios(seed), margin, "ratio", strata=strata()) for seed in (1, 2, 3)]
    return (
        write(there / "default", "default", Task("gpqa_diamond", right, 0.1, secret=True), needles[0]),
        write(there / "again", "default-again", Task("gpqa_diamond", right, 0.1, secret=True), needles[1]),
        write(there / "specialized", "specialized", Task("gpqa_diamond", broken, 0.1, changed=cut, secret=True), needles[2]),
    )


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return compare(*record(tmp_path_factory.mktemp("failed"), lost=0.4))


def test_the_first_screen_of_a_summary(failed: Comparison) -> None:
    head = "\n".join(render(failed).splitlines()[:22])
    assert head.startswith("# FAIL: specialized against default")
    for part in (
        "the stand-in",
        "A stand-in can not sign off a release",
        "**Alarm**: gpqa_diamond: exact is lower, p",
        "| score of gpqa_diamond | FAIL | 1 |",
        "198 of 200 decode and verify steps ran specialized",
    ):
        assert part in head


def test_a_summary_of_gb300(failed: Comparison) -> None:
    machine = Machine(system="Linux", cpu="Grace", cores=72, memory_gib=480.0, gpus=("NVIDIA GB300, 580.1, 10.3",) * 4)
    arms = tuple(arm.model_copy(update={"machine": machine, "stand_in": False}) for arm in failed.arms)
    text = render(failed.model_copy(update={"arms": arms}))
    assert "What ran: **Kimi K3 in vLLM, on NVIDIA GB300**" in text
    assert "stand-in" not in text


def test_the_figures_of_a_summary(failed: Comparison) -> None:
    text = render(failed)
    assert "| gpqa_diamond | truncated | 0 (0.00%) | 1 (0.42%) |" in text
    assert "no published score is used" in text
    assert "of 20 to stop for failure: gpqa_diamond" in text
    assert "| mrcr_openai | 8 needles, to 32768 tokens | area over lengths | 45 |" in text
    assert "A/A" in text


def test_no_content_is_in_any_report(tmp_path: Path, tool: Tool) -> None:
    default, again, specialized = record(tmp_path, lost=0.4)
    done = tool("compare-evals", str(default), str(specialized), "--again", str(again))
    assert done.returncode == 1, done
    made = Path(done.stdout.split()[-1])
    files = {path.name: (tool.cwd / path).read_text() for path in (tool.cwd / made).iterdir()}
    assert set(files) == {"comparison.json", "summary.md", "junit.xml", "SHA256SUMS"}
    assert not any("SECRET" in text for text in (*files.values(), done.stdout))
    assert json.loads(files["comparison.json"])["exit_code"] == 1


def test_the_areas_are_of_the_lengths_means(failed: Comparison) -> None:
    of = {(one.kind, one.name): one for one in failed.strata}
    eight = [of["stratum", f"8 needles, {length} tokens"] for length in LENGTHS]
    first, second, third = (one.default for one in eight)
    assert of["area", "8 needles, to 32768 tokens"].default == pytest.approx((first + second + 2 * (second + third)) / 6)
    rows = [place for place, name in enumerate(strata()) if name.startswith("8 ")]
    assert of["needles", "8 needles"].default == pytest.approx(ratios(1)[rows].mean())
    assert eight[0].items > 2 * eight[1].items
    assert [one.name.split(",")[0] for one in failed.strata if isinstance(one, Stratum)][:4] == ["2 needles"] * 3 + ["8 needles"]


def test_flipped_items(failed: Comparison) -> None:
    assert failed.flips["mrcr_openai"] == 90
    of = [one for one in failed.flipped if one.task == "gpqa_diamond"]
    assert len(of) == failed.flips["gpqa_diamond"] > 20
    lost = [one.default - one.specialized for one in of]
    assert lost == sorted(lost, reverse=True)
    assert {(one.default, one.pairs) for one in of} == {(4.0, 4)}


def test_junit(failed: Comparison, tmp_path: Path, tool: Tool) -> None:
    default, _, specialized = record(tmp_path)
    done = tool("compare-evals", str(default), str(specialized), "--output", "out")
    assert done.returncode == 0, done
    (written,) = (tool.cwd / "out").glob("*/junit.xml")
    root = ET.fromstring(written.read_text())
    assert root.get("name") == "k3-parity evals"
    suite = root.find("testsuite")
    assert suite is not None
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["8", "0", "0", "1"]


def test_inconclusive_and_invalid_are_no_passes(tmp_path: Path, tool: Tool) -> None:
    default, again, specialized = record(tmp_path, margin=0.01)
    done = tool("compare-evals", str(default), str(specialized), "--output", "out")
    assert done.returncode == 2, done
    assert "INCONCLUSIVE mrcr_openai: ratio" in done.stdout
    (written,) = (tool.cwd / "out").glob("*/junit.xml")
    assert ET.fromstring(written.read_text()).find(".//error[@type='INCONCLUSIVE']") is not None
    assert tool("compare-evals", str(default), str(again)).returncode == 3
    assert "no run record" in tool.refused("compare-evals", str(default), str(tmp_path / "nowhere"))
    assert compare(default, None, again).verdict is Verdict.INVALID
