"""The logits' reference against torch, and the greedy token's rule for ties."""

import pytest
import torch

from validate.model.call import Call
from validate.numerics import acceptance
from validate.numerics.case import Case
from validate.numerics.logits import VOCAB, build
from validate.paths.emulated.logits import SpecializedLogits
from validate.reference.logits import reference
from validate.reference.points import Points


def case(inputs: str, batch: int = 3, tp: int = 16) -> Call:
    return build(Case("logits", {"tp": tp, "batch": batch}, inputs, 0))


def run(call: Call) -> Call:
    after = call.fresh()
    SpecializedLogits()(after)
    return after


@pytest.fixture(scope="module")
def tied() -> Call:
    return case("tied")


@pytest.fixture(scope="module")
def close() -> Call:
    return case("close")


def largest(call: Call) -> torch.Tensor:
    return reference(call, Points("common"))["logits"].value.topk(2).indices.sort().values


def test_agrees_with_torch_in_float64(tied: Call):
    expected = torch.nn.functional.linear(tied.inputs["x"].double(), tied.inputs["head"].double())
    torch.testing.assert_close(reference(tied, Points("common"))["logits"].value, expected)


def test_token_agrees_with_torch_argmax():
    after = run(case("trained"))
    expected = torch.argmax(after.outputs["logits"][0].float(), 1)
    assert torch.equal(after.outputs["token"][:, :, 0], expected.expand(16, -1))
    entry = reference(after, Points("common", given=after.outputs))["token"]
    assert acceptance.choice("token", after.outputs["token"][0], entry).passed


def test_tied_rows_lie_on_both_sides_of_a_rank_boundary(tied: Call):
    first, second = largest(tied).unbind(1)
    shard = VOCAB // 16
    assert torch.equal(second, first + 1)
    assert bool((second % shard == 0).all())
    assert torch.equal(tied.inputs["head"][first], tied.inputs["head"][second])


@pytest.mark.parametrize("inputs", ["tied", "close"])
def test_the_lower_of_two_equal_bf16_logits_is_the_token(inputs: str, tied: Call, close: Call):
    call = tied if inputs == "tied" else close
    after = run(call)
    entry = reference(after, Points("common", given=after.outputs))["token"]
    first, second = largest(call).unbind(1)
    assert acceptance.choice("token", first[:, None], entry).passed
    assert not acceptance.choice("token", second[:, None], entry).passed
    assert torch.equal(after.outputs["token"][0, :, 0], first)


def test_close_rows_differ_in_fp32_and_tie_in_bf16(close: Call):
    logits = reference(close, Points("common"))["logits"].value
    pair = logits.gather(1, largest(close))
    assert bool((pair[:, 0] != pair[:, 1]).all())
    rounded = pair.bfloat16()
    assert torch.equal(rounded[:, 0], rounded[:, 1])


def test_token_is_judged_on_the_subjects_own_logits(tied: Call):
    """Without them on rounded ones: which logits tie after rounding is not for the reference to say."""
    after = run(tied)
    after.outputs["logits"][:, :, 7] = 1e4
    entry = reference(after, Points("common", given=after.outputs))["token"]
    assert acceptance.choice("token", torch.full((3, 1), 7), entry).passed
    assert not acceptance.choice("token", torch.full((3, 1), 7), reference(after, Points("common"))["token"]).passed


def test_flat_rows_tie_in_bf16_and_not_in_fp32():
    logits = reference(case("flat"), Points("common"))["logits"].value
    largest_of_row = logits.bfloat16() == logits.bfloat16().amax(1, keepdim=True)
    assert bool((largest_of_row.sum(1) > 1).all())
    assert not torch.equal(logits == logits.amax(1, keepdim=True), largest_of_row)


def test_edges_reach_both_ends_of_the_head():
    tokens = run(case("edges", 5)).outputs["token"][0, :, 0]
    assert (int(tokens[0]), int(tokens[-1])) == (0, VOCAB - 1)
