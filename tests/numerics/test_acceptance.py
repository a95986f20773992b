"""The rules of judgement on made-up tensors: each passes a sound output and fails the defect that it exists for."""

import pytest
import torch

from validate.model.call import Call, Expected, ExpectedChoice
from validate.numerics import acceptance, comparison
from validate.numerics.acceptance import Ensemble

BF16 = torch.bfloat16


def exact(rows: int = 16, columns: int = 512, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def certain(value: torch.Tensor, roundings: int = 0) -> Ensemble:
    return Ensemble(Expected(value, roundings=roundings), torch.zeros_like(value))


def failed(measurements) -> set[str]:
    return {m.check for m in measurements if not m.passed}


def call(**buffers: torch.Tensor) -> Call:
    return Call("stage", {}, {}, {"out": ((2, 3), BF16), "ids": ((2,), torch.int32)}, buffers)


def test_poison_left_in_an_output_is_incomplete() -> None:
    before = call()
    after = before.fresh()
    after.outputs["out"].zero_()
    found = acceptance.complete(before, after, {"out": Expected(torch.zeros(2, 3))})
    assert [(m.tensor, m.figure) for m in found if not m.passed] == [("ids", 2)]
    after.outputs["ids"].zero_()
    assert not failed(acceptance.complete(before, after, {}))


@pytest.mark.parametrize("wrong", [float("nan"), -0.0, 1.0])
def test_a_row_that_is_nobodys_business_must_keep_its_bits(wrong: float) -> None:
    cache = torch.zeros(4, 8)
    before = call(cache=cache)
    after = before.fresh()
    for output in after.outputs.values():
        output.zero_()
    after.buffers["cache"][1] = 5.0
    expected = {"cache": Expected(torch.full((1, 8), 5.0), (torch.tensor([1]),))}
    assert not failed(acceptance.complete(before, after, expected))
    after.buffers["cache"][2, 3] = wrong
    assert failed(acceptance.complete(before, after, expected)) == {"complete"}


def test_nan_that_was_there_before_is_left_alone() -> None:
    before = call(cache=torch.full((2, 2), float("nan")))
    after = before.fresh()
    for output in after.outputs.values():
        output.zero_()
    assert not failed(acceptance.complete(before, after, {}))


def test_ranks_must_agree_to_the_sign_of_zero() -> None:
    value = torch.zeros(8, 2, 4)
    assert acceptance.ranks_agree("x", value).passed
    value[5, 1, 2] = -0.0
    found = acceptance.ranks_agree("x", value)
    assert not found.passed
    assert "[5, 1, 2]" in found.detail


def test_rounding_accepts_the_rounded_reference_and_nothing_beside_it() -> None:
    reference = exact()
    assert acceptance.rounding("x", reference.to(BF16), certain(reference)).passed
    wrong = reference.to(BF16)
    wrong[3, 7] = torch.nextafter(wrong[3, 7], torch.tensor(torch.inf, dtype=BF16))
    found = acceptance.rounding("x", wrong, certain(reference))
    assert not found.passed
    assert "row 3, column 7" in found.detail


def test_rounding_accepts_what_the_ensemble_spans() -> None:
    reference = exact()
    moved = reference + 0.9 * acceptance.ENSEMBLE_REACH * 1e-4
    spread = torch.full_like(reference, 1e-4)
    assert acceptance.rounding("x", moved.float(), Ensemble(Expected(reference), spread)).passed
    assert not acceptance.rounding("x", moved.float(), certain(reference)).passed


def test_strays_are_few_small_and_only_where_something_is_rounded_inside() -> None:
    reference = exact()
    wrong = reference.to(BF16)
    wrong[3, :2] = torch.nextafter(wrong[3, :2], torch.full((2,), torch.inf).to(BF16))
    small = reference[3, :2].abs().log2().floor() >= reference[3].square().mean().sqrt().log2().floor()
    assert acceptance.rounding("x", wrong, certain(reference, roundings=2)).passed, small
    assert not acceptance.rounding("x", wrong, certain(reference, roundings=0)).passed
    wrong[3, :64] = torch.nextafter(wrong[3, :64], torch.full((64,), torch.inf).to(BF16))
    assert not acceptance.rounding("x", wrong, certain(reference, roundings=2)).passed
    far = reference.to(BF16)
    far[3, 0] *= 2
    assert not acceptance.rounding("x", far, certain(reference, roundings=1)).passed


def test_rounding_rejects_nan() -> None:
    reference = exact()
    wrong = reference.to(BF16)
    wrong[0, 0] = float("nan")
    assert not acceptance.rounding("x", wrong, certain(reference)).passed


def test_no_worse_is_measured_against_the_default_path() -> None:
    reference = exact(columns=4096)
    noise = exact(columns=4096, seed=1)
    default = (reference + 0.01 * noise).to(BF16)
    better = (reference + 0.015 * noise).to(BF16)
    worse = (reference + 0.04 * noise).to(BF16)
    common = certain(reference)
    assert not failed(comparison.no_worse("x", better, common, 0, default))
    assert failed(comparison.no_worse("x", worse, common, 0, default)) >= {"no_worse", "no_worse_row"}


def test_one_bad_row_in_64_fails_its_row_though_the_tensor_passes() -> None:
    reference = exact(rows=64, columns=4096)
    default = reference.to(BF16)
    value = default.clone()
    value[40] = (reference[40] + 0.007 * exact(rows=64, columns=4096, seed=1)[40]).to(BF16)
    found = failed(comparison.no_worse("x", value, certain(reference), 0, default))
    assert "no_worse_row" in found
    assert "no_worse" not in found


def test_a_zero_reference_is_compared_absolutely() -> None:
    reference = torch.zeros(1, 64, dtype=torch.float64)
    default = reference.to(BF16)
    found = comparison.no_worse("x", default, certain(reference), 0, default)
    assert all(m.passed and m.bound < 1 for m in found if m.check.startswith("no_worse"))
    assert failed(comparison.no_worse("x", default + 1, certain(reference), 0, default)) >= {"no_worse", "largest"}


def test_one_wild_element_fails_largest() -> None:
    reference = exact(columns=8192)
    default = reference.to(BF16)
    value = default.clone()
    value[2, 5] += 0.25
    found = {m.check: m for m in comparison.no_worse("x", value, certain(reference), 0, default)}
    assert not found["largest"].passed
    assert "[2, 5]" in found["largest"].detail
    assert found["share"].passed


def scores(*rows: list[float]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize(
    ("ids", "error", "good"),
    [
        ([0, 2], 0.0, True),
        ([2, 0], 0.0, True),  # an order is not asked for
        ([0, 1], 0.0, False),
        ([0, 1], 0.06, True),  # 0.5 and 0.4 within the errors of both
        ([0, 3], 0.06, False),
        ([0, 0], 0.0, False),  # twice the same
        ([0, 9], 0.0, False),  # no such id
    ],
)
def test_choice_follows_the_margin(ids: list[int], error: float, good: bool) -> None:
    expected = ExpectedChoice(scores([0.9, 0.4, 0.5, 0.1]), torch.full((1, 4), error, dtype=torch.float64), 2)
    assert acceptance.choice("ids", torch.tensor([ids]), expected).passed is good


def test_exact_ties_go_to_the_lower_id() -> None:
    expected = ExpectedChoice(scores([0.5, 0.9, 0.5, 0.5]), torch.zeros(1, 4, dtype=torch.float64), 2)
    assert acceptance.choice("ids", torch.tensor([[1, 0]]), expected).passed
    assert not acceptance.choice("ids", torch.tensor([[1, 2]]), expected).passed
