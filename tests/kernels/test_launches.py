"""Launches held against compilations: the adapters', on the original and with faults in vLLM's launches."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import Edit
from validate.kernels import driverless
from validate.paths.vllm import entries

pytestmark = pytest.mark.skipif(bool(driverless.missing()), reason="the compiler is not installed")


def watched(root: Path, keyword: str, profile: str = "gb300-tp16") -> tuple[int, str]:
    command = [sys.executable, "-m", "validate.kernels.launches", profile, str(root), keyword]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("profile", ["gb300-tp8", "gb300-tp16"])
def test_every_adapters_launches_are_what_their_kernels_were_compiled_for(vllm_source: Path, profile: str) -> None:
    code, said = watched(vllm_source, "s0", profile)
    assert code == 0, said
    for line in said.splitlines():
        stage, *counts = line.replace(":", ",").split(", ")
        assert len(counts) > 1, f"{stage} launches nothing"


FAULTS = {
    "receive slots of all columns": (
        entries.PREPARED_OPROJ,
        {"fake((tp, cap, 7168 // tp))": "fake((tp, cap, 7168))"},
        "o_proj/ and batch1-",
        "shape (16, 64, 448), compiled for (16, 64, 7168)",
    ),
    "slots of 64 bits": (
        entries.PREPARED_KDA,
        {"dtype=torch.int32, **meta": "dtype=torch.int64, **meta"},
        "kda/ and batch1-q1-",
        "int32, compiled for Int64",
    ),
    "a bias in bf16": (
        entries.FRONT,
        {"fake((896,), None, f32)": "fake((896,))"},
        "router/ and batch8-",
        "float32, compiled for BFloat16",
    ),
    "columns of 64 bits": (
        entries.FRONT,
        {"c.Int32(box.rank * shard)": "c.Int64(box.rank * shard)"},
        "router/ and batch8-",
        "Int64, compiled for Int32",
    ),
    "a small batch's SiTU in fp32": (
        entries.SMALL_BATCH,
        {"(Float32,) * 4 + (Float64,)": "(Float32,) * 5"},
        "latent_down/ and batch2-",
        "Float64, compiled for Float32",
    ),
    "columns first": (
        entries.PREPARED_OPROJ,
        {"fake((7168, k), (k, 1))": "fake((7168, k), (1, 7168))"},
        "o_proj/ and batch1-",
        "stride (768, 1), compiled for (1, 7168)",
    ),
    "an operand too many": (
        entries.PREPARED_ATTN_RES,
        {"row, eps, eps)\n": "row, eps, eps, eps)\n"},
        "attn_res/ and batch1-blocks0-",
        "compiled for Float32",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_launch_that_its_kernel_was_not_compiled_for_is_found(name: str, edited: Edit) -> None:
    file, replacements, keyword, difference = FAULTS[name]
    code, said = watched(edited(file, replacements), keyword)
    assert code == 1, said
    assert difference in said
