"""vLLM's kernels over real ranks: sound they pass, edited they fail. Two GPUs or more, of compute capability 9.0 or later."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from tests.support import ROOT, Edit, in_sessions
from validate.paths.vllm import entries

pytestmark = pytest.mark.skipif(
    torch.cuda.device_count() < 2 or find_spec("cutlass") is None, reason="needs two GPUs and nvidia-cutlass-dsl"
)
CASES = (
    "o_proj/tp8-batch1-regime1-write0-parity0/trained/s0",
    "o_proj/tp8-batch2-regime2-write0-parity1/sentinel/s0",
    "o_proj/tp8-batch3-regime3-write1-parity0/trained/s0",
    "o_proj/tp8-batch16-regime16-write1-parity0/trained/s0",
)


def over_ranks(root: Path, *cases: str) -> list[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "8"]
    command += [str(ROOT / "tests/paths/over_gpus.py"), str(root), *cases]
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    given = {**os.environ, "PYTHONPATH": paths, "TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES": "1", "OMP_NUM_THREADS": "1"}
    done = in_sessions([command], given, ROOT, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith("o_proj/")]


def test_partials_reach_their_owners(vllm_source: Path) -> None:
    assert over_ranks(vllm_source, *CASES) == [f"{case}: sound" for case in CASES]


FAULTS = {
    "two ranks share a slot": {"cute.crd2idx((slot, token, ": "cute.crd2idx((slot & 6, token, "},
    "stored to the next owner": {"Int64(peers[owner])": "Int64(peers[owner ^ 1])"},
    "stored a row too far": {"(slot, token, column - owner * width)": "(slot, token + 1, column - owner * width)"},
}


@pytest.mark.parametrize("name", FAULTS)
def test_partials_that_go_astray_are_found(name: str, edited: Edit) -> None:
    (line,) = over_ranks(edited(f"{entries.CUTEDSL}/common/twoshot.py", FAULTS[name]), CASES[0])
    assert not line.endswith(": sound"), line
