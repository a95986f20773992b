"""vLLM's kernels on a GPU: sound they pass, edited they fail, and one that waits for a slot that never comes is a verdict.

``K3_PARITY_VLLM_SRC=VLLM pytest -n 8 tests/paths/test_vllm_gpu.py`` on a machine with an SM90 GPU or later. Each fault is a
change of a few characters in a copy of vLLM's files; each case is one that the sound kernel passes in the same session.
"""

import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from tests.support import Edit
from validate.numerics import judge
from validate.numerics.case import Case
from validate.paths.vllm import Vllm, entries, source
from validate.profiles import load

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or find_spec("cutlass") is None, reason="needs a GPU and nvidia-cutlass-dsl"
)

ATTN_RES, KDA = f"{entries.CUTEDSL}/attn_res/kernel.py", f"{entries.CUTEDSL}/kda/kernel.py"


def case(stage: str, inputs: str, **sizes: int) -> Case:
    """The first case of the hopper profile with these sizes."""
    for found in judge.cases(load("hopper"), [stage]):
        if found.inputs == inputs and all(found.sizes[name] == value for name, value in sizes.items()):
            return found
    raise AssertionError(f"no case of {stage} with {inputs}, {sizes}")


def kda(rows: int, q: int, inputs: str, tp: int = 16) -> Case:
    return Case("kda", {"tp": tp, "batch": rows, "q": q, "regime": rows}, inputs, 0)


FAULTS: dict[str, tuple[str, dict[str, str], Callable[[], Case]]] = {
    "only the first slot is armed again": (
        ATTN_RES,
        {"rearm(base + slot * delta.shape[1] * 7168)": "rearm(base)"},
        lambda: case("attn_res", "rotating", slots=3),
    ),
    "mailbox added up in bf16": (
        ATTN_RES,
        {"cur[0, i] = cur[0, i] + part[0, i]": "cur[0, i] = Float32(cutlass.BFloat16(cur[0, i] + part[0, i]))"},
        lambda: case("attn_res", "sentinel", slots=8),
    ),
    "mailbox sum not rounded": (
        ATTN_RES,
        {"round_pair(cur, 0, j)": "cur[0, j] = cur[0, j]"},
        lambda: case("attn_res", "sentinel", slots=8),
    ),
    "block written one place too far": (
        ATTN_RES,
        {"block_ptr(blocks, token, self.write, col)": "block_ptr(blocks, token, self.write + 1, col)"},
        lambda: case("attn_res", "sentinel", slots=2, write=2),
    ),
    "one term of the cross-CTA sum lost": (
        ATTN_RES,
        {"total[tid] = sums[0] + sums[1]": "total[tid] = sums[0]"},
        lambda: case("attn_res", "trained", slots=1, batch=2),
    ),
    "wait for the decays skipped": (KDA, {"wait(gate_barrier)": "_ = 0"}, lambda: kda(4, 1, "trained")),
    "barrier before the norms skipped": (
        KDA,
        {"cute.arch.barrier(barrier_id=1, number_of_threads=128)": "cute.arch.sync_warp()"},
        lambda: kda(32, 1, "saturated"),
    ),
    "gate not rounded": (
        KDA,
        {"raw_g.append(Float32(BFloat16(value)))": "raw_g.append(value)"},
        lambda: kda(4, 1, "trained"),
    ),
    "first state whatever was accepted": (
        KDA,
        {"offset = args[17][request] - 1": "offset = args[17][request] - args[17][request]"},
        lambda: kda(8, 4, "recycled"),
    ),
    "null slot taken for a state": (KDA, {"if slot <= 0:": "if slot < 0:"}, lambda: kda(4, 1, "padded")),
    "epsilon of the keys lost": (KDA, {"rsqrt(kn + 1.0e-6": "rsqrt(kn"}, lambda: kda(4, 1, "faint", tp=8)),
    "query scale ignored": (
        entries.MLA_QUERY,
        {"qsi = q_scale_inv[0]": "qsi = Float32(1)"},
        lambda: case("mla", "scaled", tp=16, batch=3, q=1, regime=3, dcp=1),
    ),
    "value not rounded before the gate": (
        entries.MLA_VALUE,
        {"Float32(BFloat16(acc[2 * r + e]))": "acc[2 * r + e]"},
        lambda: case("mla", "scaled", tp=16, batch=16, q=8, regime=16, dcp=1),
    ),
    "padded requests not zeroed": (
        entries.MLA_VALUE,
        {"if lengths[t // self.q] > 0:": "if lengths[t // self.q] >= 0:"},
        lambda: case("mla", "padded", tp=16, batch=2, q=1, dcp=1, regime=2),
    ),
    "logits not armed again": (
        entries.FRONT,
        {"rearm(cell)": "_ = 0"},
        lambda: case("router", "trained", tp=16, batch=16, regime=16),
    ),
    "bias in the weights": (
        entries.FRONT,
        {"sig[4 * tid + i] = scores[i]": "sig[4 * tid + i] = scores[i] + offsets[i]"},
        lambda: case("router", "trained", tp=16, batch=16, regime=16),
    ),
    "ids not made relative to the shard": (
        entries.PREPARED_EMBEDDING,
        {"row, column = token_id - start": "row, column = token_id"},
        lambda: case("embedding", "boundaries"),
    ),
}


def failed(root: Path, of: Case) -> set[str]:
    (judgement,) = judge.judge(of, [Vllm("specialized", source.opened(root))])
    assert judgement.missing is None, judgement.missing
    return {f"{m.tensor} {m.check}" for m in judgement.measurements if not m.passed}


@pytest.mark.parametrize("name", FAULTS)
def test_sound_kernels_pass_and_faulty_ones_fail(vllm_source: Path, edited: Edit, name: str) -> None:
    file, replacements, chosen = FAULTS[name]
    assert failed(vllm_source, chosen()) == set()
    found = failed(edited(file, replacements), chosen())
    print(f"{name}: {', '.join(sorted(found))}")
    assert found


STUCK = """
import os, sys
from pathlib import Path
from validate.numerics import judge
from validate.paths.vllm import Vllm, device, source
from tests.paths.test_vllm_gpu import case

device.DEADLINE = 3.0
deliver = device.Gpu._deliver
device.Gpu._deliver = lambda self, boxes, full, order: deliver(self, tuple(b[:2] for b in boxes), [f[:2] for f in full], order)
(found,) = judge.judge(case("attn_res", "rotating", slots=3), [Vllm("specialized", source.opened(Path(sys.argv[1])))])
print(found.measurements, flush=True)
os._exit(0)
"""


def test_a_slot_that_never_comes_is_named(vllm_source: Path) -> None:
    done = subprocess.run([sys.executable, "-c", STUCK, str(vllm_source)], capture_output=True, text=True, timeout=240)
    assert "check='finished'" in done.stdout, done.stderr
    assert "slot 2: " in done.stdout
