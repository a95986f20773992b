"""What the adapters do in PyTorch around vLLM's kernels, and which of them runs which sizes."""

import struct
from pathlib import Path

import pytest
import torch

from validate import profiles
from validate.errors import InputError
from validate.numerics import judge
from validate.numerics.case import Case
from validate.paths import Broken
from validate.paths.emulated.mailbox import SENTINEL
from validate.paths.vllm import attn_res, choose, embedding, kda, shared_small_batch, source

GB300, HOPPER = (10, 3), (9, 0)


@pytest.mark.parametrize("ranks", [8, 16])
def test_a_delta_is_handed_out_to_all_ranks(ranks: int) -> None:
    delta = torch.randn(3, 64).bfloat16()
    delta[0, :4] = torch.tensor([0.0, -0.0, -(2.0**-133), 2.0**100])
    parts = attn_res.handed_out(delta, ranks)
    assert torch.equal(parts.double().sum(0), delta.double())
    assert not (parts.view(torch.int32) == SENTINEL).any()
    held = parts != 0
    assert (held.sum(0) == (delta != 0)).all(), "an element is one rank's"
    assert held.any(-1)[:, 1:].all(), "every rank has some of every row"
    for left_out in range(ranks):
        wrong = parts.double().sum(0) - parts[left_out].double()
        assert (wrong != delta.double()).any(-1)[1:].all()


def test_the_fused_cases_deltas_are_sums_over_ranks() -> None:
    """Which are never -0."""
    cases = [c for c in judge.cases(profiles.load("gb300-tp16"), ["attn_res"]) if c.sizes["fused"]]
    assert {"subnormal", "trained"} <= {case.inputs for case in cases}
    for case in cases:
        delta = judge.build(case).inputs["delta"]
        assert not ((delta == 0) & delta.signbit()).any(), case.id


def test_a_repeat_that_differs_is_judged() -> None:
    row = torch.randn(2, 4).bfloat16()
    row[0, 0] = 0.0
    rows = row.repeat(1, 5)
    assert torch.equal(embedding.odd_one(rows, 4), row)
    rows[0, 12], rows[1, 19] = -0.0, float("nan")
    odd = embedding.odd_one(rows, 4)
    assert odd[0].signbit()[0]
    assert torch.equal(odd[0, 1:], row[0, 1:])
    assert odd[1].isnan().tolist() == [False, False, False, True]


def test_gate_and_up_are_flagged() -> None:
    """The word of the front's ``gate_pass``: (bits << 16) | 1."""
    gate_up = torch.cat([torch.tensor([1.5, -0.0, 0.0, -3.0e38]), torch.randn(2 * shared_small_batch.WIDTH - 4)])
    gate_up = gate_up.bfloat16().float()
    words = shared_small_batch.flagged(gate_up[None])
    there = words[shared_small_batch.HALF, 0]
    for value, word in zip(gate_up.tolist(), there.tolist(), strict=True):
        high = struct.unpack("<i", struct.pack("<f", value))[0]  # a bf16 is the upper half of an fp32
        assert word == high | 1
    words[shared_small_batch.HALF, 0] = 0
    assert not words.any()


def test_the_split_k_gemm_is_refused_without_flashinfer() -> None:
    with pytest.raises(InputError, match="FlashInfer, which cannot be imported"):
        source._without_flashinfer(64, 8, 4, 8)


SIZES = [
    ("input_projection", {"tp": 16, "batch": 1, "regime": 1, "mla": 0}, "SpecializedProjection", "SpecializedSkinny"),
    ("input_projection", {"tp": 8, "batch": 2, "regime": 4, "mla": 1}, "SpecializedProjection", "its split-K GEMM"),
    ("dense_mlp", {"tp": 16, "batch": 5, "regime": 5}, "SpecializedDenseMlp", "SpecializedDenseSitu"),
    ("shared_experts", {"tp": 8, "batch": 1, "regime": 1}, "SmallSharedExperts", "its kernels hold the products"),
    ("shared_experts", {"tp": 8, "batch": 1, "regime": 2}, "SpecializedSharedExperts", "compiled for the rows"),
    ("shared_experts", {"tp": 16, "batch": 2, "regime": 2}, "it needs all ranks", "its kernels hold the products"),
    ("shared_experts", {"tp": 16, "batch": 3, "regime": 3}, "SpecializedSharedExperts", "SpecializedSharedSitu"),
    ("shared_experts", {"tp": 16, "batch": 47, "regime": 48}, "SpecializedSharedExperts", "compiled for the rows"),
]


@pytest.mark.parametrize(("stage", "sizes", "gb300", "hopper"), SIZES, ids=str)
def test_the_sizes_of_each_adapter(stage: str, sizes: dict[str, int], gb300: str, hopper: str) -> None:
    call = judge.build(Case(stage, sizes, "trained", 0))
    for capability, wanted in ((GB300, gb300), (HOPPER, hopper)):
        chosen = choose("specialized", call, source.Source(Path()), capability, 16)
        said = chosen if isinstance(chosen, str) else type(chosen).__name__
        assert wanted in said


@pytest.mark.parametrize("fused", [0, 1])
def test_the_fused_form_has_an_adapter_of_its_own(fused: int) -> None:
    cases = judge.cases(profiles.load("gb300-tp16"), ["attn_res"])
    call = judge.build(next(case for case in cases if case.sizes["fused"] == fused))
    wanted = attn_res.FusedAttnRes if fused else attn_res.SpecializedAttnRes
    assert type(choose("specialized", call, source.Source(Path()), GB300, 16)) is wanted
    chosen = choose("specialized", call, source.Source(Path()), HOPPER, 16)
    assert chosen == "the form fused with the o-projection needs SM100" if fused else type(chosen) is wanted


def test_the_merged_sizes_are_said() -> None:
    for tp, rows, said in ((8, 40, False), (8, 48, True), (16, 32, False), (16, 64, True)):
        call = judge.build(Case("shared_experts", {"tp": tp, "batch": rows, "regime": rows}, "trained", 0))
        chosen = choose("specialized", call, source.Source(Path()), GB300, 16)
        assert not isinstance(chosen, str)
        assert (chosen.note(call) is not None) is said


@pytest.mark.parametrize("left", [0.0, -0.0, 1.0, float("nan")])
def test_kdas_padded_rows_must_be_zero(left: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that leaves something in the rows that pad a step of one row to two."""

    class Kernel:
        def __init__(self, *_: object) -> None: ...

        def prepare_caches(self, caches: object) -> "Kernel":
            return self

        def run(self, projected: torch.Tensor, out: torch.Tensor, caches: object, slots: torch.Tensor) -> None:
            assert slots.tolist()[1:] == [0], "the null slot"
            out[0], out[1:] = 2.0, left

    monkeypatch.setattr(kda, "imported", lambda *_: Kernel)
    cases = judge.cases(profiles.load("gb300-tp16"), ["kda"])
    call = judge.build(next(c for c in cases if (c.sizes["batch"], c.sizes["regime"]) == (1, 2))).fresh()
    prepared = kda.SpecializedKda().prepare(call, source.Source(Path()))
    prepared.launch()
    assert (call.outputs["out"] == 2).all()
    assert prepared.collect is not None
    if left == 0:
        prepared.collect()
    else:
        with pytest.raises(Broken, match="1 of 1 padded rows are not zero"):
            prepared.collect()


@pytest.mark.parametrize("name", ["hopper", "gb300", "gb300-tp8", "gb300-tp16"])
def test_a_gpu_profile_has_no_case_that_no_kernel_could_be_given(name: str) -> None:
    cases = judge.cases(profiles.load(name))
    assert [c.id for c in cases if c.sizes.get("regime", c.sizes["batch"]) < c.sizes["batch"]] == []
    assert [c.id for c in cases if (c.stage, c.inputs) == ("mla", "bf16")] == []
    assert any(c.sizes.get("regime", 0) > c.sizes["batch"] for c in cases), "padded steps are kept"
