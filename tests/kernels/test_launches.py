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
    "lengths that trtllm-gen does not take": (
        entries.PREPARED_MLA,
        {"seq_lens=lengths,": "seq_lens=lengths.long(),"},
        "mla/ and batch16-q1- and dcp1-",
        "seq_lens torch.int64 (16,), it takes torch.int32 (16,)",
    ),
    "a parameter that trtllm-gen has not": (
        entries.PREPARED_MLA,
        {"enable_pdl=True,": "use_pdl=True,"},
        "mla/ and batch16-q1- and dcp1-",
        "it takes no use_pdl",
    ),
    "a query that tokenspeed does not take": (
        entries.MLA_DCP,
        {"args = [query[..., :512], query[..., 512:],": "args = [query[..., :512], query[..., 512:].float(),"},
        "mla/ and batch1-q1-regime1- and dcp1-",
        "float32, compiled for Float8E4M3FN",
    ),
    "totals of rows instead of requests": (
        entries.MLA_DCP,
        {"lens = fake((batch // q,), None, i32, 4)": "lens = fake((batch,), None, i32, 4)"},
        "mla/ and batch8-q4- and dcp16-",
        "shape (2,), compiled for (8)",
    ),
    "log-sum-exps without the dimension of a query's rows": (
        entries.MLA_DCP,
        {"rows_lse = fake((batch, 1, size * heads), None, f32, 4)": "rows_lse = fake((batch, size * heads), None, f32, 4)"},
        "mla/ and batch1-q1- and dcp16-",
        "shape (1, 1, 96), compiled for (1, 96)",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_launch_that_its_kernel_was_not_compiled_for_is_found(name: str, edited: Edit) -> None:
    file, replacements, keyword, difference = FAULTS[name]
    code, said = watched(edited(file, replacements), keyword)
    assert code == 1, said
    assert difference in said
