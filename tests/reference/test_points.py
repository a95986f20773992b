"""Rounding points and the ensemble that they span."""

import pytest
import torch

from validate.reference.points import U32, Member, Point, Points

BF16 = torch.bfloat16
BOTH = Point(BF16, BF16, "both paths")
DEFAULT_ONLY = Point(BF16, None, "the default path")
NEITHER = Point(None, None, "fp32 in both")
VALUE = torch.tensor([1 + 2.0**-10], dtype=torch.float64)  # between the bf16 numbers 1 and 1 + 2**-7


@pytest.mark.parametrize(
    ("path", "point", "rounds"),
    [
        ("default", BOTH, True),
        ("specialized", BOTH, True),
        ("common", BOTH, True),
        ("default", DEFAULT_ONLY, True),
        ("specialized", DEFAULT_ONLY, False),
        ("common", DEFAULT_ONLY, False),
        ("default", NEITHER, False),
    ],
)
def test_a_point_rounds_on_the_paths_that_declare_it(path: str, point: Point, rounds: bool) -> None:
    points = Points(path)
    assert float(points(point, VALUE, 0.0)) == (1.0 if rounds else 1 + 2.0**-10)
    assert points.rounded == int(rounds)


def test_members_take_a_value_at_a_boundary_to_both_sides() -> None:
    boundary = torch.tensor([1 + 2.0**-8], dtype=torch.float64)
    sides = {m: float(Points("common", m)(BOTH, boundary, 2.0**-20)) for m in (Member.UP, Member.DOWN)}
    assert sides == {Member.UP: 1 + 2.0**-7, Member.DOWN: 1.0}


def test_members_are_repeatable() -> None:
    values = torch.zeros(100, dtype=torch.float64)
    first, second = (Points("common", Member.RANDOM)(NEITHER, values, 1.0) for _ in range(2))
    assert torch.equal(first, second)
    assert 0.1 < float(first.abs().mean()) < 0.9
    assert float(first.abs().max()) <= 1.0


@pytest.mark.parametrize("order", ["forward", "backward", "pairwise"])
def test_matmul_error_bounds_fp32_sums_in_any_order(order: str) -> None:
    g = torch.Generator().manual_seed(1)
    x, w = torch.randn(4, 4096, generator=g).bfloat16(), torch.randn(8, 4096, generator=g).bfloat16()
    value, error = Points("common").matmul(x, w)
    products = (x[:, None].float() * w[None].float()).unbind(-1)
    if order == "pairwise":
        total = torch.stack(products, -1).sum(-1)
    else:
        total = torch.zeros(4, 8)
        for product in products if order == "forward" else reversed(products):
            total = total + product
    assert bool(((total - value).abs() <= error).all())
    assert bool((error < 1e-3 * value.abs().max()).all())


def test_matmul_is_formed_once_for_all_members() -> None:
    kept: dict = {}
    x, w = torch.ones(1, 8).bfloat16(), torch.ones(2, 8).bfloat16()
    first = Points("common", products=kept).matmul(x, w)[0]
    assert Points("default", Member.UP, kept).matmul(x, w)[0] is first
    assert float(first[0, 0]) == 8.0
    assert Points("common").matmul(x, w)[1][0, 0] == pytest.approx(U32 * (8**0.5 + 1) * 8**0.5)
