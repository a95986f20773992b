"""The latent projection against torch, and the orders in which the specialized front sums."""

import pytest
import torch

from validate.faults.latent_down import NegativeZeroPublished
from validate.model.call import Call
from validate.model.draws import Draws
from validate.model.synthetic import activation, linear_weight
from validate.numerics.case import Case
from validate.numerics.latent_down import build
from validate.paths.emulated.front import front_gemm, geometry, lane_dot, merged
from validate.paths.emulated.latent_down import SpecializedLatentDown
from validate.reference.latent_down import reference
from validate.reference.points import Points


@pytest.fixture(scope="module")
def operands() -> tuple[torch.Tensor, torch.Tensor]:
    draws = Draws("latent test")
    return activation(draws, 3, 7168), linear_weight(draws, 32, 7168)


def test_agrees_with_torch_in_float64(operands):
    x, weight = operands
    call = Call("latent_down", {"tp": 8, "batch": 3, "regime": 3}, {"x": x, "weight": weight, "live": 2}, {})
    found = reference(call, Points("common"))["out"]
    torch.testing.assert_close(found.value, x[:2].double() @ weight.double().T)


@pytest.mark.parametrize(
    ("tp", "regime"), [(8, 1), (8, 2), (8, 16), (8, 32), (8, 64), (16, 1), (16, 2), (16, 8), (16, 64), (1, 8)]
)
def test_every_order_of_summation_takes_every_product_once(tp: int, regime: int):
    """Powers of two add up exactly in any order, so a product lost or taken twice would show."""
    x = torch.ones(2, 7168).bfloat16()
    weight = torch.exp2(-Draws("order", tp, regime).integers((16, 7168), 0, 8).float()).bfloat16()
    exact = (x.double() @ weight.double().T).float()
    assert torch.equal(front_gemm(x, weight, tp, regime), exact)
    if regime <= 2:
        assert torch.equal(lane_dot(x[:regime], weight, regime), exact[:regime])


def test_orders_differ_between_regimes(operands):
    x, weight = operands
    sums = [front_gemm(x, weight, 8, regime) for regime in (1, 4, 16, 64)]
    assert all(not torch.equal(a, b) for n, a in enumerate(sums) for b in sums[:n])


def test_k_splits_are_those_of_the_kernels():
    assert geometry(8, 1) == (16, 8)
    assert geometry(8, 4) == (16, 4)
    assert geometry(8, 32) == (32, 2)
    assert geometry(8, 40) == (16, 2)
    assert geometry(16, 32) == (32, 2)
    assert (merged(8, 64), merged(16, 64), merged(8, 32), merged(16, 32)) == (4, 6, 0, 0)


def test_negative_zero_is_not_published():
    stage = SpecializedLatentDown()
    published = stage.published(torch.tensor([[-0.0, -1.5, 2.0**-140]]))
    assert published.view(torch.int16).tolist()[0][0] == 0
    assert published.tolist()[0][1] == -1.5


def test_zeros_of_both_signs_would_stop_the_reader():
    call = build(Case("latent_down", {"tp": 16, "batch": 4, "regime": 4}, "zeros", 0))
    sound, hanging = call.fresh(), call.fresh()
    SpecializedLatentDown()(sound)
    NegativeZeroPublished()(hanging)
    assert not bool(sound.outputs["out"].isnan().any())
    assert bool(hanging.outputs["out"][:, 0].isnan().any())
