"""vLLM's own Triton kernels: sound they pass, edited they fail, and in fp32 they are the float64 equations."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from tests.support import Edit, Tool
from validate.errors import InputError
from validate.numerics import judge
from validate.numerics.case import Case
from validate.paths.emulated import Emulated
from validate.paths.vllm import Vllm, entries, source
from validate.profiles import load

FP32_SUMS = 1e-6  # relative 2-norm: sums of 128 products and some ten roundings of 6e-8 each

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed: the extra 'interpreter'")


def kda(rows: int, q: int, inputs: str) -> Case:
    return Case("kda", {"tp": 16, "batch": rows, "q": q, "regime": rows}, inputs, 0)


def recover_ssm(requests: int, q: int, state: int, inputs: str, first: int = 0) -> Case:
    sizes = {"tp": 16, "batch": requests * q, "q": q, "state": state, "channels_first": first}
    return Case("recover_ssm", sizes, inputs, 0)


def attn_res(saved: int) -> Case:
    """A small case whose delta is added and that the default path has: with the blocks so far saved."""
    for case in judge.cases(load("cpu"), ["attn_res"]):
        s = case.sizes
        if (s["blocks"], s["add"], s["slots"], s["final"]) == (saved, 1, 0, 0) and s["batch"] <= 8:
            return case
    raise AssertionError(f"no case with {saved} saved blocks")


def interpreted(root: Path) -> Vllm:
    return Vllm("default", source.opened(root, interpreted=True))


def failed(root: Path, case: Case) -> set[str]:
    (judgement,) = judge.judge(case, [interpreted(root)])
    assert judgement.missing is None
    return {f"{m.tensor} {m.check}" for m in judgement.measurements if not m.passed}


SOUND = [
    kda(2, 1, "padded"),
    kda(2, 1, "recycled"),
    kda(2, 2, "trained"),
    kda(4, 2, "padded"),
    recover_ssm(1, 2, 32, "recycled"),
    recover_ssm(1, 4, 16, "trained", 1),
    recover_ssm(2, 2, 32, "padded"),
    recover_ssm(2, 2, 16, "padded"),
    recover_ssm(2, 2, 32, "aligned"),
    recover_ssm(2, 2, 32, "mixed"),
    recover_ssm(3, 2, 32, "ragged"),
    attn_res(0),
    attn_res(8),
]


@pytest.mark.parametrize("case", SOUND, ids=lambda case: case.id)
def test_sound_kernels_pass(vllm_source: Path, case: Case) -> None:
    assert failed(vllm_source, case) == set()


DECAY_LAST = {
    "b_state *= exp(b_gate[None, :])": "b_decay = exp(b_gate[None, :])",
    "b_state += b_v[:, None] * b_k[None, :]": "b_state = (b_state + b_v[:, None] * b_k[None, :]) * b_decay",
}
ACCEPTED = {"num_accepted_tokens + i_n).to(tl.int64) - 1": "num_accepted_tokens + i_n).to(tl.int64) * 0"}
NOT_ROUNDED = {"updated_prefix.to(prefix_ptr.dtype.element_ty).to(tl.float32)": "updated_prefix"}
FAULTS = {
    "delta rule without beta": (entries.KDA, {"b_v *= b_beta": "b_v *= 1.0"}, kda(2, 1, "recycled")),
    "decay after the update": (entries.KDA, DECAY_LAST, kda(2, 1, "recycled")),
    "null slot taken for a state": (entries.KDA, {"state_idx <= 0": "state_idx < 0"}, kda(2, 1, "padded")),
    "first state whatever was accepted": (entries.KDA, ACCEPTED, kda(2, 2, "trained")),
    "no activation": (entries.CONVOLUTION, {"acc / (1 + tl.exp(-acc))": "acc"}, kda(2, 1, "recycled")),
    "gate not applied": (entries.GATED_NORM, {"b_y = b_y * tl.sigmoid(b_g)": "b_y = b_y"}, kda(2, 1, "recycled")),
    "correction without beta": (
        entries.RECOVER_SSM,
        {"correction *= tl.sigmoid(raw_beta)": "correction *= 1.0"},
        recover_ssm(1, 2, 32, "recycled"),
    ),
    "updates not decayed": (
        entries.RECOVER_SSM,
        {"final_correction += update * final_decay[None, :]": "final_correction += update"},
        recover_ssm(1, 4, 16, "trained", 1),
    ),
    "a rejected token folded": (
        entries.RECOVER_SSM,
        {"tl.minimum(tl.maximum(num_accepted, 0), query_len)": "query_len"},
        recover_ssm(2, 2, 32, "mixed"),
    ),
    "records of the first request": (
        entries.RECOVER_SSM,
        {"pid_b * correction_cache_block_stride + pid_h": "pid_h"},
        recover_ssm(3, 2, 32, "ragged"),
    ),
    "taps of a full window for a ragged one": (
        entries.CONVOLUTION,
        {"state_len = state_len - (seqlen - (query_end_index - query_start_index))": "state_len = state_len"},
        recover_ssm(3, 2, 32, "ragged"),
    ),
    "counts of the first requests": (
        entries.RECOVER_SSM,
        {"num_accepted_ptr + request_idx * stride": "num_accepted_ptr + spec_idx * stride"},
        recover_ssm(2, 2, 32, "mixed"),
    ),
    "taps not brought forward": (
        entries.RECOVER_SSM,
        {"(commit_len - 1 + offs_h[None, :]) * token_stride": "offs_h[None, :] * token_stride"},
        recover_ssm(2, 2, 32, "aligned"),
    ),
    "the end of a block with the whole window": (
        entries.RECOVER_SSM,
        {"before_boundary = token_offset < boundary_recovery_len": "before_boundary = token_offset >= 0"},
        recover_ssm(2, 2, 32, "aligned"),
    ),
    "a null slot committed": (
        entries.RECOVER_SSM,
        {"state_idx <= null_block_id": "state_idx < null_block_id", "_state_idx > null_block_id": "_state_idx >= null_block_id"},
        recover_ssm(2, 2, 32, "padded"),
    ),
    "prefix not rounded": (entries.ATTN_RES, NOT_ROUNDED, attn_res(0)),
    "tiles not rescaled": (entries.ATTN_RES, {"mixed * old_scale": "mixed"}, attn_res(8)),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_edited_into_the_kernels_fail(edited: Edit, name: str) -> None:
    file, replacements, case = FAULTS[name]
    assert case in SOUND
    assert failed(edited(file, replacements), case)


def test_the_accepted_token_matters() -> None:
    assert judge.build(kda(2, 2, "trained")).inputs["accepted"].tolist() == [2]


ALIKE = [kda(2, 1, "trained"), kda(2, 2, "trained"), recover_ssm(2, 2, 32, "aligned")]


@pytest.mark.parametrize("case", ALIKE, ids=lambda case: case.id)
def test_the_emulation_computes_what_vllm_computes(vllm_source: Path, case: Case) -> None:
    """Measured: 98.7 % of the outputs equal or more, states to 4e-8; to 6e-5 where a gate rounds the other way."""
    call = judge.build(case)
    own, theirs = call.fresh(), call.fresh()
    Emulated("default").run(own)
    interpreted(vllm_source).run(theirs)
    assert torch.equal(own.buffers["conv"], theirs.buffers["conv"])
    before, state, other = (c.buffers["state"].flatten(0, 1) for c in (call, own, theirs))  # slots times heads
    written = (other != before).any(-1).any(-1)
    by_head = ((state - other).norm(dim=(1, 2)) / other.norm(dim=(1, 2)))[written]
    assert by_head.median() < FP32_SUMS
    assert by_head.max() < 2.0**-8
    assert (own.outputs["out"] == theirs.outputs["out"]).float().mean() > 0.95


def relative(value: torch.Tensor, other: torch.Tensor) -> float:
    return float((value.double() - other.double()).norm() / other.double().norm())


def test_fp32_decode_is_the_float64_recurrence(vllm_source: Path) -> None:
    decode = entries.imported(source.opened(vllm_source, interpreted=True), entries.KDA, "fused_recurrent_kda_packed_decode")
    rows, heads, dim = 3, 2, 128
    generator = torch.Generator().manual_seed(0)
    qkv, gate, state = (
        torch.randn(shape, generator=generator)
        for shape in ((rows, 3 * heads * dim), (1, rows, heads, dim), (rows + 1, heads, dim, dim))
    )
    beta, rate, bias = (torch.randn(shape, generator=generator) for shape in ((1, rows, heads), heads, heads * dim))
    slots = torch.tensor([3, 1, 2], dtype=torch.int32)
    before = state[slots].double()
    out, _ = decode(qkv, gate, beta, rate, bias, -5.0, state, slots)
    query, key, value = qkv.double().view(rows, 3, heads, dim).unbind(1)
    query = query / (query.square().sum(-1, keepdim=True) + 1e-6).sqrt() * dim**-0.5
    key = key / (key.square().sum(-1, keepdim=True) + 1e-6).sqrt()
    decay = torch.exp(-5.0 * torch.sigmoid(rate.double().exp()[:, None] * (gate[0] + bias.view(heads, dim)).double()))
    after = before * decay[:, :, None]
    delta = (value - torch.einsum("bhvk,bhk->bhv", after, key)) * torch.sigmoid(beta[0].double())[..., None]
    after = after + torch.einsum("bhv,bhk->bhvk", delta, key)
    assert relative(state[slots], after) < FP32_SUMS
    assert relative(out[0], torch.einsum("bhvk,bhk->bhv", after, query)) < FP32_SUMS


def test_fp32_attn_res_is_the_float64_mixture(vllm_source: Path) -> None:
    attn_res = entries.imported(source.opened(vllm_source, interpreted=True), entries.ATTN_RES, "attn_res")
    rows, hidden, saved = 2, 7168, 5
    generator = torch.Generator().manual_seed(0)
    prefix, delta, norm, query, gamma = (
        torch.randn(shape, generator=generator) for shape in ((rows, hidden), (rows, hidden), (hidden,), (hidden,), (hidden,))
    )
    query = query / hidden**0.5
    blocks = torch.randn(rows, 8, hidden, generator=generator)
    sources = torch.cat([blocks[:, :saved], (prefix + delta)[:, None]], 1).double()
    out = attn_res(prefix, delta, blocks, norm, query, gamma, saved, -1, 1e-5, 1e-5)
    rstd = torch.rsqrt(sources.square().mean(-1) + 1e-5)
    share = ((sources * norm.double() * query.double()).sum(-1) * rstd).softmax(-1)
    mixed = (share[..., None] * sources).sum(1)
    expected = torch.nn.functional.rms_norm(mixed, (hidden,), gamma.double(), 1e-5)
    assert relative(out, expected) < FP32_SUMS
    assert torch.equal(prefix.double(), sources[:, -1])


def test_stages_and_sizes_that_it_leaves_out(vllm_source: Path) -> None:
    subject = interpreted(vllm_source)
    assert subject.missing(judge.build(kda(2, 1, "trained"))) is None
    assert "thread blocks" in str(subject.missing(judge.build(kda(64, 1, "trained"))))
    assert "thread blocks" in str(subject.missing(judge.build(recover_ssm(4, 8, 16, "trained"))))
    case = judge.cases(load("cpu"), ["decode_step"])[0]
    assert "no adapter" in str(subject.missing(judge.build(case)))


def test_each_folder_has_its_own_modules(vllm_source: Path, edited: Edit) -> None:
    other = source.opened(edited(entries.ATTN_RES, {"block_l, num_warps = 1, 4": "block_l, num_warps = 2, 4"}), interpreted=True)
    first = source.opened(vllm_source, interpreted=True)
    for root in (first, other, first):
        assert Path(str(entries.imported(root, entries.ATTN_RES, "attn_res").__globals__["__file__"])).is_relative_to(root.root)


def test_another_version_is_refused(edited: Edit) -> None:
    renamed = {"def fused_recurrent_kda_packed_decode(": "def packed_decode("}
    with pytest.raises(InputError, match="there is no fused_recurrent_kda_packed_decode"):
        interpreted(edited(entries.KDA, renamed))


def test_other_parameters_are_refused(edited: Edit) -> None:
    with pytest.raises(InputError, match="takes no block_write_idx"):
        interpreted(edited(entries.ATTN_RES, {"block_write_idx: int": "write: int"}))


def test_a_parameter_in_front_of_those_that_are_passed_by_position_is_a_difference(edited: Edit) -> None:
    root = source.opened(edited(entries.PREPARED_OPROJ, {"has_delta, mla, front=False": "has_delta, mla, extra=1, front=False"}))
    (line,) = (line for line in entries.differences(root, entries.SPECIALIZED["o_proj"]) if "compile_oproj" in line)
    assert "in another order" in line


def test_imports_that_nothing_stands_in_for_are_refused(edited: Edit) -> None:
    with pytest.raises(InputError, match="cannot be loaded"):
        interpreted(edited(entries.ATTN_RES, {"from vllm.platforms import": "from vllm.elsewhere import"}))


def test_a_folder_without_vllm_is_refused_by_the_command_line(tool: Tool) -> None:
    message = tool.refused("numerics", "--vllm-src", "nowhere", "-k", "kda")
    assert "no vLLM under" in message


def test_a_moved_constant_is_named_whether_it_is_assigned_alone_or_with_others(edited: Edit) -> None:
    root = source.opened(edited(entries.FRONT, {'"9-64:1", "9-12:6': '"9-64:1", "9-12:8', '16: ("", ': "16: (None, "}))
    *_, first, second = entries.differences(root, entries.SPECIALIZED["experts"])
    assert first.endswith("SPLIT is '9-12:8,13-24:4,25-64:2', not '9-12:6,13-24:4,25-64:2'")
    assert "SPLITS is {8: " in second
