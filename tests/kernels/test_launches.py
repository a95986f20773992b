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
    "a split-K product in fp32": (
        entries.PROJECTION,
        {"cutlass.Float32 if output_dtype == torch.float32 else cutlass.BFloat16": "cutlass.Float32"},
        "input_projection/ and batch3-",
        "bfloat16, compiled for Float32",
    ),
    "a GEMV for a row more": (
        f"{entries.SKINNY.removesuffix('_skinny_gemm.py')}skinny_gemm.py",
        {"(config.num_rows, k)": "(config.num_rows + 1, k)"},
        "input_projection/ and batch1-regime1-",
        "shape (1, 7168), compiled for (2, 7168)",
    ),
    "a dense activation of fp32": (
        entries.DENSE,
        {"(dynamic_fake(2), dynamic_fake(2),": "(dynamic_fake(2, torch.float32), dynamic_fake(2),"},
        "dense_mlp/ and batch1-",
        "bfloat16, compiled for Float32",
    ),
    "no map of the router's rows": (
        entries.SHARED,
        {"(256 if front is None else 384,)": "(256,)"},
        "shared_experts/ and batch64-",
        "SharedUmma: operand 1: shape (384,), compiled for (256)",
    ),
    "two owners of the columns": (
        entries.SHARED,
        {"(fake((tp,), None, Int64), Int32(0), Int32(0), Int32(0))": "(fake((2,), None, Int64), *[Int32(0)] * 3)"},
        "shared_experts/ and batch16-",
        "SharedDown: operand 2: shape (16,), compiled for (2)",
    ),
    "gate and up in bf16": (
        entries.FRONT,
        {"output_dtype=torch.float32": "output_dtype=torch.bfloat16"},
        "shared_experts/ and batch4-",
        "float32, compiled for BFloat16",
    ),
    "an epsilon too few": (
        entries.PREPARED_OPROJ,
        {"row, xmoe, hints, eps, eps)": "row, xmoe, hints, eps)"},
        "attn_res/ and batch3- and -fused1",
        "OprojConsumer: operand 10: Float32, compiled for a stream",
    ),
    "a longer shard": (
        entries.PREPARED_EMBEDDING,
        {"fake((shard, 7168))": "fake((shard + 1, 7168))"},
        "embedding/ and batch1-",
        "shape (10240, 7168), compiled for (10241, 7168)",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_launch_that_its_kernel_was_not_compiled_for_is_found(name: str, edited: Edit) -> None:
    file, replacements, keyword, difference = FAULTS[name]
    code, said = watched(edited(file, replacements), keyword)
    assert code == 1, said
    assert difference in said


def test_a_fault_in_a_kernel_of_tp8_alone_is_found(edited: Edit) -> None:
    root = edited(entries.SMALL_BATCH, {"(MoeSharedTP8, (Int32,) * 2)": "(MoeSharedTP8, (Int32,) * 3)"})
    code, said = watched(root, "shared_experts/ and batch1-regime1/", "gb300-tp8")
    assert code == 1, said
    assert "MoeSharedTP8: operand 7: a stream, compiled for Int32" in said
