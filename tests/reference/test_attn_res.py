"""AttnRes's reference against a brute-force softmax, its limits, and what it says of buffers."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from validate.model.call import Call
from validate.model.draws import Draws
from validate.numerics.attn_res import _case, build
from validate.paths.emulated.attn_res import DefaultAttnRes, SpecializedAttnRes
from validate.reference.attn_res import reference
from validate.reference.points import Member, Points

HIDDEN = 7168
ROWS = 8


def case(inputs: str = "trained", batch: int = 2, seed: int = 0, **form: int) -> Call:
    return build(_case(batch, {"blocks": 3, **form}, inputs, seed))


def replaced(call: Call, **inputs: object) -> Call:
    return dataclasses.replace(call, inputs={**call.inputs, **inputs})


def brute_force(call: Call, row: int) -> torch.Tensor:
    """One row, source by source, without the max subtraction and with every norm written out."""
    i, saved = call.inputs, call.shape["blocks"]
    slots = call.buffers["mailbox"]
    delta = i["delta"][row].double() if i["delta"] is not None else slots[:, row].double().sum(0).bfloat16().double()
    own = (call.buffers["prefix"][row].double() + delta).bfloat16().double() if call.shape["add"] else delta
    sources = [call.buffers["blocks"][row, n].double() for n in range(saved)] + [own]
    weights = []
    for source in sources:
        root = math.sqrt(float((source * source).sum()) / HIDDEN + i["eps"])
        weights.append(math.exp(float(torch.dot(source / root * i["norm"].double(), i["query"].double()))))
    mixture = torch.zeros(HIDDEN, dtype=torch.float64)
    for weight, source in zip(weights, sources, strict=True):
        mixture += weight / sum(weights) * source
    if call.shape["final"]:
        mixture = mixture.bfloat16().double()
    root = math.sqrt(float((mixture * mixture).sum()) / HIDDEN + i["out_eps"])
    return mixture / root * i["out_norm"].double()


@pytest.mark.parametrize(
    ("inputs", "form"),
    [
        ("trained", {"blocks": 0}),
        ("trained", {"blocks": 0, "add": 0, "write": 0}),
        ("trained", {"blocks": 1}),
        ("trained", {"blocks": 8, "slots": 1}),
        ("faint", {"blocks": 3, "slots": 8}),
        ("opposed", {"blocks": 5}),
        ("equal", {"blocks": 8, "add": 0}),
        ("trained", {"blocks": 8, "slots": 1, "final": 1}),
    ],
)
def test_agrees_with_a_brute_force_softmax(inputs: str, form: dict[str, int]):
    call = case(inputs, **form)
    found = reference(call, Points("common"))["out"].value
    for row in range(2):
        torch.testing.assert_close(found[row], brute_force(call, row), rtol=1e-11, atol=1e-11)


def test_agrees_with_torch_attention():
    """Scaled dot-product attention with one query, normalised keys and the sources as values."""
    call = case(slots=1, blocks=8)
    i, rows = call.inputs, 2
    own = (call.buffers["prefix"][:rows].double() + call.buffers["mailbox"][0, :rows].double()).bfloat16().double()
    sources = torch.cat([call.buffers["blocks"][:rows].double(), own[:, None]], 1)
    keys = torch.nn.functional.rms_norm(sources, (HIDDEN,), i["norm"].double(), i["eps"])
    query = i["query"].double().expand(rows, 1, -1)
    mixture = torch.nn.functional.scaled_dot_product_attention(query, keys, sources, scale=1.0)[:, 0]
    expected = torch.nn.functional.rms_norm(mixture, (HIDDEN,), i["out_norm"].double(), i["out_eps"])
    torch.testing.assert_close(reference(call, Points("common"))["out"].value, expected, rtol=1e-11, atol=1e-11)


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(1, 1000), blocks=st.integers(2, 8))
def test_order_of_the_blocks_does_not_matter(seed: int, blocks: int):
    call = case(batch=1, blocks=blocks, seed=seed)
    order = torch.randperm(blocks, generator=torch.Generator().manual_seed(seed))
    shuffled = call.buffers["blocks"].clone()
    shuffled[:, :blocks] = shuffled[:, order]
    other = dataclasses.replace(call, buffers={**call.buffers, "blocks": shuffled})
    first, second = (reference(c, Points("common"))["out"].value for c in (call, other))
    torch.testing.assert_close(first, second, rtol=1e-12, atol=1e-12)


def test_zero_query_gives_the_mean_of_the_sources():
    call = replaced(case(blocks=4), query=torch.zeros(HIDDEN).bfloat16())
    own = reference(call, Points("common"))["prefix"].value
    sources = torch.cat([call.buffers["blocks"][:2, :4].double(), own[:, None]], 1)
    expected = torch.nn.functional.rms_norm(sources.mean(1), (HIDDEN,), call.inputs["out_norm"].double(), call.inputs["out_eps"])
    torch.testing.assert_close(reference(call, Points("common"))["out"].value, expected)


def test_large_query_picks_one_source():
    call = case("dominant", blocks=8)
    call = replaced(call, query=call.inputs["query"] * 64)
    own = reference(call, Points("common"))["prefix"].value
    sources = torch.cat([call.buffers["blocks"][:2].double(), own[:, None]], 1)
    keys = torch.nn.functional.rms_norm(sources, (HIDDEN,), call.inputs["norm"].double(), call.inputs["eps"])
    best = (keys @ call.inputs["query"].double()).argmax(1)
    expected = torch.nn.functional.rms_norm(
        sources[torch.arange(2), best], (HIDDEN,), call.inputs["out_norm"].double(), call.inputs["out_eps"]
    )
    torch.testing.assert_close(reference(call, Points("common"))["out"].value, expected)


def test_prefix_is_the_rounded_sum_and_goes_wherever_it_is_asked_for():
    call = case(slots=1, blocks=3, write=3, aux=1)
    found = reference(call, Points("default"))
    expected = (call.buffers["prefix"][:2].float() + call.buffers["mailbox"][0, :2].float()).bfloat16().double()
    for name in ("prefix", "aux", "blocks"):
        assert torch.equal(found[name].value, expected)
        assert found[name].exact
    assert found["blocks"].where == (slice(0, 2), 3)


def test_only_the_rows_read_are_armed_again():
    call = case(slots=2, blocks=3)
    entry = reference(call, Points("default"))["mailbox"]
    words = entry.value.bfloat16().view(torch.int32)
    assert bool((words == -0x80000000).all())
    box = call.buffers["mailbox"]
    assert box[entry.where].shape == (2, 2, HIDDEN)
    assert box.shape[1] > 2


def test_unsaved_blocks_and_an_unused_prefix_have_no_say():
    call = case(blocks=3, add=0)
    assert bool(call.buffers["blocks"][:, 3:].isnan().all())
    assert bool(call.buffers["prefix"][:2].isnan().all())
    assert bool(reference(call, Points("common"))["out"].value.isfinite().all())


def test_default_rounds_once_more_before_the_final_weight():
    """vLLM's RMSNorm converts the normalised row to bf16 first; the fused final form does not."""
    call = replaced(case(blocks=8, final=1), out_norm=torch.ones(HIDDEN).bfloat16())
    default, specialized = (reference(call, Points(path))["out"].value for path in ("default", "specialized"))
    assert torch.equal(default, specialized.bfloat16().double())


def test_cancellation_is_the_specialized_kernels_own_error():
    """Its algebraic sum of squares may lose digits; the reference that compares the paths does not excuse that."""

    def moved(path: str) -> float:
        nominal, up = (reference(call, Points(path, m))["out"].value for m in (Member.NOMINAL, Member.UP))
        return float(((up - nominal) / nominal).abs().median())

    call = case("opposed", blocks=5)
    assert moved("specialized") > 4 * moved("common")
    assert moved("default") == moved("common")


@pytest.mark.parametrize("stage", [DefaultAttnRes, SpecializedAttnRes])
def test_emulated_paths_only_round_the_output(stage: type):
    call = case(blocks=8, slots=1).fresh()
    expected = reference(call, Points("common"))["out"].value
    stage()(call)
    error = (call.outputs["out"].double() - expected).norm()
    rounding = (expected.bfloat16().double() - expected).norm()
    assert float(error) == pytest.approx(float(rounding), rel=1e-3)


def opposed_errors(ratio: float) -> tuple[float, float]:
    """Relative errors of both emulated paths where a mixture has ``ratio`` of the size of its two sources."""
    draws = Draws("opposed", ratio)
    row = draws.bell((ROWS, HIDDEN), 2.0).bfloat16()
    call = replaced(case(batch=ROWS, blocks=1, add=0), query=torch.zeros(HIDDEN).bfloat16(), delta=row)
    blocks = call.buffers["blocks"].clone()
    blocks[:ROWS, 0] = (-row.double() + 2 * ratio * draws.bell((ROWS, HIDDEN), 2.0)).bfloat16()
    call = dataclasses.replace(call, buffers={**call.buffers, "blocks": blocks})
    expected = reference(call, Points("common"))["out"].value
    errors = []
    for stage in (DefaultAttnRes, SpecializedAttnRes):
        after = call.fresh()
        stage()(after)
        errors.append(float((after.outputs["out"].double() - expected).norm() / expected.norm()))
    return errors[0], errors[1]


def test_algebraic_norm_holds_while_the_mixture_is_a_thirtieth_of_its_sources():
    default, specialized = opposed_errors(2.0**-5)
    assert specialized == pytest.approx(default, rel=0.01)


def test_algebraic_norm_loses_digits_where_the_mixture_nearly_vanishes():
    """Where it ends, and the control of the test above: a five-hundredth. The direct sum of squares still holds."""
    default, specialized = opposed_errors(2.0**-9)
    assert default < 2.0**-9
    assert specialized > 1.2 * default
