"""The input projection's reference against exact integer arithmetic, and the kernels' orders of summation."""

import numpy as np
import pytest
import torch

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.model.draws import Draws
from validate.paths.emulated.input_projection import SpecializedInputProjection, k_splits
from validate.reference.input_projection import reference
from validate.reference.points import Points

HIDDEN, ROWS = 7168, 48


def call(regime: int, batch: int | None = None, x: torch.Tensor | None = None) -> Call:
    """A projection of 48 rows (kernels differ in K, not in rows)."""
    draws = Draws("input projection", regime)
    if x is None:
        x = draws.integers((regime, HIDDEN), -128, 129).bfloat16()
    weight = draws.integers((ROWS, HIDDEN), -16, 17).bfloat16()
    shape = {"tp": 8, "batch": batch or regime, "regime": regime, "mla": 1}
    return Call("input_projection", shape, {"x": x, "weight": weight}, {"projected": ((regime, ROWS), torch.bfloat16)})


def test_agrees_with_exact_integers():
    """Products of small integers: numpy's int64 matrix product has no rounding at all."""
    c = call(5)
    x, weight = (c.inputs[name].double().numpy().astype(np.int64) for name in ("x", "weight"))
    found = reference(c, Points("common"))["projected"].value
    assert np.array_equal(found.numpy(), (x @ weight.T).astype(np.float64))


def test_only_live_rows_are_judged():
    x = torch.ones(8, HIDDEN).bfloat16()
    x[3:] = float("nan")
    entry = reference(call(8, 3, x), Points("common"))["projected"]
    assert entry.where == (slice(0, 3),)
    assert bool(entry.value.isfinite().all())


@pytest.mark.parametrize("regime", [1, 2, 3, 8, 9, 16, 33, 64])
def test_every_regime_sums_all_of_k(regime: int):
    """Sums below 2**24 are exact in every order: a column that a kernel skips or counts twice shows."""
    c = call(regime)
    exact = reference(c, Points("common"))["projected"].value
    after = c.fresh()
    SpecializedInputProjection()(after)
    assert torch.equal(after.outputs["projected"], exact.bfloat16())


@pytest.mark.parametrize(
    ("rows", "tp", "splits"),
    [
        (6288, 8, {1: 2, 8: 2, 9: 2, 32: 2, 33: 1, 64: 1}),
        (3216, 16, {1: 4, 8: 4, 9: 2, 64: 2}),
        (3648, 8, {3: 4, 16: 2, 64: 2}),
        (2880, 16, {8: 4, 9: 2}),
    ],
)
def test_splits_of_k_follow_vllms_table(rows: int, tp: int, splits: dict[int, int]):
    for regime, count in splits.items():
        assert k_splits(rows, tp, regime) == count


def test_rows_of_the_two_layer_kinds():
    assert [K3.kda_projection_rows(tp) for tp in (8, 16)] == [6288, 3216]
    assert [K3.mla_projection_rows(tp) for tp in (8, 16)] == [3648, 2880]


def test_order_of_the_parts_can_matter():
    """2**24, 1, 1, -2**24 in four parts of K: adding them in order loses both ones."""
    x = torch.zeros(3, HIDDEN)
    x[:, ::1792] = torch.tensor([2.0**24, 1.0, 1.0, -(2.0**24)])
    c = call(3, x=x.bfloat16())
    c.inputs["weight"][:] = 1.0
    after = c.fresh()
    SpecializedInputProjection()(after)
    assert bool((after.outputs["projected"] == 0).all())
    assert bool((reference(c, Points("common"))["projected"].value == 2).all())
