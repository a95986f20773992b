"""Launches held against compilations: the adapters', on the original and with faults in vLLM's launches."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT, Edit
from validate.kernels import needs
from validate.paths.vllm import entries

EXPERTS = "experts/ and batch16- and not shared"
pytestmark = pytest.mark.skipif(bool(needs.missing()), reason="the compiler is not installed")


def watched(root: Path, keyword: str, profile: str = "gb300-tp16") -> tuple[int, str]:
    command = [sys.executable, "-m", "validate.kernels.launches", profile, str(root), keyword]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


# What must be among the launches, by profile and stage: all kernels that the stage has at that TP size.
KERNELS = {
    ("gb300-tp8", "o_proj"): {"OprojProducer", "OprojUmma", "OprojConsumer"},
    ("gb300-tp16", "o_proj"): {"OprojProducer", "OprojUmma", "OprojConsumer", "OprojFused"},
    ("gb300-tp8", "recover_ssm"): {"KdaTcVerify", "KdaTcVerify2", "KdaCommit"},
    ("gb300-tp16", "recover_ssm"): {"KdaTcVerify", "KdaTcVerify2", "KdaCommit"},
    ("gb300-tp8", "moe_tail"): {"MoeTail", "WaveMoeTail", "WaveMoeTail.push", "ClusterAttnRes"},
    ("gb300-tp16", "moe_tail"): {"MoeTail", "WaveMoeTail", "WaveMoeTail.push", "ClusterAttnRes"},
}


@pytest.mark.parametrize("profile", ["gb300-tp8", "gb300-tp16"])
def test_every_adapters_launches_are_what_their_kernels_were_compiled_for(vllm_source: Path, profile: str) -> None:
    code, said = watched(vllm_source, "s0", profile)
    assert code == 0, said
    launched = {}
    for line in said.splitlines():
        stage, *counts = line.replace(":", ",").split(", ")
        assert len(counts) > 1, f"{stage} launches nothing"
        launched[profile, stage] = {count.rpartition(" ")[0] for count in counts} - {"cases"}
    assert {key: launched[key] for key in KERNELS if key[0] == profile} == {k: v for k, v in KERNELS.items() if k[0] == profile}


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
    "corrections in bf16": (
        entries.CUTE_RECOVER_SSM,
        {"dynamic_fake(4, f32),  # corrections": "dynamic_fake(4, bf16),  # corrections"},
        "recover_ssm/ and batch4-q4-state16",
        "KdaTcVerify2: operand 6: float32, compiled for BFloat16",
    ),
    "slots for the lengths to commit": (
        entries.CUTE_RECOVER_SSM,
        {"        context.commit_lens[:batch],\n": ""},
        "recover_ssm/ and batch4-q4-state16",
        "operand 12: float, compiled for a tensor",
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
        entries.CHAIN,
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
    "all partials for the owners' sums": (
        entries.PREPARED_OPROJ,
        {"codes[1](gather, *rows[:-1], *tail, s)": "codes[1](self.box, *rows[:-1], *tail, s)"},
        "o_proj/ and batch64-",
        "shape (16, 64, 7168), compiled for (1, 64, 7168)",
    ),
    "nothing for the MoE's front": (
        entries.PREPARED_OPROJ,
        {"            front = self.front[:2]": "            pass"},
        "o_proj/ and batch1-regime1-",
        "None, compiled for a tensor",
    ),
    "the latent for its sums": (
        entries.TAIL,
        {"flat(box.twoshot.gather if twoshot else box.reduced)": "flat(box.latent.buffer)"},
        "moe_tail/ and batch16-",
        "shape (11010048,), compiled for (688128)",
    ),
    "one-shot mailboxes at two-shot sizes": (
        entries.TAIL,
        {"args, tail = box.twoshot_args, box.twoshot_tail": "pass"},
        "moe_tail/ and batch64-",
        "shape (11010048,), compiled for (688128)",
    ),
    "the layer's rows in a small batch's place": (
        entries.TAIL,
        {"slots = 3 * POLL_CAP if mode": "slots = batch if mode"},
        "moe_tail/ and batch1-rearm1",
        "shape (1376256,), compiled for (57344)",
    ),
    "an operand too many": (
        entries.PREPARED_ATTN_RES,
        {"row, eps, eps)\n": "row, eps, eps, eps)\n"},
        "attn_res/ and batch1-blocks0-",
        "compiled for Float32",
    ),
    "experts' ids of 64 bits": (
        entries.EXPERTS,
        {"(3584, 1)), flat(batch * 16, c.Int32)": "(3584, 1)), flat(batch * 16, c.Int64)"},
        "experts/ and batch4- and not shared",
        "int32, compiled for Int64",
    ),
    "scales of unpadded channels": (
        f"{entries.CUTEDSL}/moe/experts.py",
        {"3584 * self.w2_scale_columns": "3584 * 6"},
        EXPERTS,
        "shape (25690112,), compiled for (19267584)",
    ),
    "a plan of codes alone": (
        entries.FRONT,
        {"fake((PLAN_BYTES,)": "fake((64 * 3584,)"},
        EXPERTS,
        "shape (258048,), compiled for (229376)",
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


def test_a_mistake_of_an_adapter_is_found(vllm_source: Path) -> None:
    """A mailbox of half its rows."""
    mistake = "from validate.paths.vllm import route_situ; route_situ.CAPACITY = 32"
    run = f"from validate.kernels import launches; launches._main('gb300-tp16', {str(vllm_source)!r}, {EXPERTS!r})"
    done = subprocess.run([sys.executable, "-c", f"{mistake}; {run}"], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stderr
    assert "RouteSitu: operand 4: shape (1, 32, 5376), compiled for (1, 64, 5376)" in done.stdout


def test_a_fault_in_a_kernel_of_tp8_alone_is_found(edited: Edit) -> None:
    root = edited(entries.CHAIN, {"(MoeSharedTP8, (Int32,) * 2)": "(MoeSharedTP8, (Int32,) * 3)"})
    code, said = watched(root, "shared_experts/ and batch1-regime1/", "gb300-tp8")
    assert code == 1, said
    assert "MoeSharedTP8: operand 7: a stream, compiled for Int32" in said
