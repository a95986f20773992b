"""vLLM's own engine in process, on a CPU: all three arms of a tiny model. Skipped where vLLM is not installed."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import ROOT
from validate.records import arm_folder
from validate.records.arm import Transcript

pytestmark = pytest.mark.engine

ARMS = """
base = "cpu-bf16"
without = ["alone", "chunks", "beyond", "dictated", "slots"]
model = "{model}"
layers = 2
attn_res_block = 1
prompts = "ids"
prompt_ids = [3, 320]

[engine]
skip_tokenizer_init = true
block_size = 32
num_gpu_blocks_override = 200

[[scenes]]
name = "decode"
kind = "together"
sizes = [1, 2, 8]
lengths = [2, 6]
tokens = 24
decode_only = true

[[scenes]]
name = "small-cache"
kind = "preemption"
requests = 20
lengths = [200, 300]
tokens = 120

[[scenes]]
name = "forced"
kind = "forced"
of = ["decode", "arrivals", "preempted"]
"""


@dataclass
class Recorded:
    default: arm_folder.Arm
    again: arm_folder.Arm
    specialized: arm_folder.Arm


def ran(cwd: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "tests.equivalence.counted", *arguments]
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = tmp_path_factory.mktemp("engine")
    ran(folder, "make", str(folder / "model"))
    (folder / "arms.toml").write_text(ARMS.format(model=folder / "model"))
    made: list[arm_folder.Arm] = []
    for name in ("default", "default-again", "specialized"):
        source = ["--force-from", str(made[0].folder)] if made else []
        ran(folder, "record", "arms.toml", "--arm", name, "--output", f"runs-{name}", *source)
        made.append(arm_folder.read(next((folder / f"runs-{name}").iterdir())))
    return Recorded(*made)


def by_key(arm: arm_folder.Arm) -> dict[str, Transcript]:
    return {one.key: one for one in arm.transcripts}


def test_the_arms_are_asked_the_same(recorded: Recorded) -> None:
    first, *others = (by_key(arm) for arm in (recorded.default, recorded.again, recorded.specialized))
    for other in others:
        assert set(other) == set(first)
        assert all(other[key].prompt == first[key].prompt for key in first)
    assert len({arm.manifest.plan for arm in (recorded.default, recorded.again, recorded.specialized)}) == 1
    assert recorded.default.manifest.engine["block_size"] == 32


def test_the_same_engine_and_batches_decode_the_same(recorded: Recorded) -> None:
    first, other = by_key(recorded.default), by_key(recorded.specialized)
    assert all(other[key].tokens == first[key].tokens and other[key].logprobs == first[key].logprobs for key in first)


def test_default_again_forms_other_batches(recorded: Recorded) -> None:
    rows = [{s.rows for s in arm.steps.by_scene["decode-8"] if s.kind == "decode"} for arm in (recorded.default, recorded.again)]
    assert rows[0] == {8}
    assert rows[1] > {8, 9}  # with a companion, and while some have not come or have ended


def test_steps_are_counted_by_scene(recorded: Recorded) -> None:
    counts = recorded.specialized.steps.by_scene["decode-2"]
    assert [(s.path, s.kind, s.rows, s.count) for s in counts if s.kind == "decode"] == [("specialized", "decode", 2, 23)]
    assert all(s.path == "default" for one in recorded.default.steps.by_scene.values() for s in one)
    assert recorded.default.steps.corrupted == 0


def test_forced_requests_follow_their_tokens_and_say_what_the_engine_thinks(recorded: Recorded) -> None:
    greedy = by_key(recorded.default)
    for arm in (recorded.default, recorded.again):
        forced = [one for one in arm.transcripts if one.kind == "forced"]
        assert len(forced) == 11 + 12 + 6
        for one in forced:
            before = greedy[f"{one.scene.removeprefix('forced-')}/{one.request}"]
            assert one.tokens == before.tokens
            assert one.logprobs == pytest.approx(before.logprobs, abs=0.5)  # raw: a forced distribution would give 0
            assert max(one.logprobs) < 0


def test_hits_preemptions_and_endings(recorded: Recorded) -> None:
    found = by_key(recorded.default)
    assert {one.cached for one in found.values() if one.scene == "prefix"} == {0, 64}
    assert {one.preemptions for one in found.values() if one.scene == "preempted"} == {1}
    assert sum(one.preemptions for one in found.values() if one.scene == "small-cache") > 0
    ends = {one.finish for one in found.values() if one.scene == "stops"}
    assert "length" in ends
    assert any(end and end.startswith("stop ") for end in ends)


def test_every_position_has_its_best_tokens(recorded: Recorded) -> None:
    for one in recorded.default.transcripts:
        assert len(one.top) == len(one.logprobs) == len(one.tokens)
        assert all(len(top.ids) == 20 and list(top.logprobs) == sorted(top.logprobs, reverse=True) for top in one.top)
        assert one.times is not None
        assert len(one.times.intervals) == len(one.tokens) - 1


def test_the_engine_says_that_it_is_what_was_asked_for() -> None:
    """In a process of its own: an engine stays in it."""
    code = """
from validate.equivalence import identity
from validate.equivalence.arm import load
from validate.equivalence.in_process import InProcess
arms = load("cpu-fp32-drafts")
found = InProcess(arms, "specialized").identity()
assert set(identity.PLACES) < set(found.arguments), found
print(identity.unlike(found, arms.arguments("specialized"), arms.environment))
print(identity.unlike(found, arms.arguments("default"), arms.environment))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, timeout=600
    )
    assert done.stdout.splitlines()[-2:] == ["[]", "['decode_backend is latency_specialized, not auto']"], done
