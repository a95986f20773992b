"""Shared experts and the dense MLP: the reference against torch's own layers, and how a width divides over ranks."""

import importlib
from collections.abc import Mapping
from typing import Any

import pytest
import torch

from validate.model.call import Call
from validate.model.draws import Draws
from validate.paths.emulated import dense_mlp, shared_experts
from validate.reference.points import Points

HIDDEN, WIDTH, ROWS = 512, 256, 3


def call(stage: str, tp: int = 8, regime: int = ROWS) -> Call:
    draws = Draws("test", "mlp")
    x = draws.bell((regime, HIDDEN), 2.0).bfloat16()
    x[ROWS:] = float("nan")
    inputs = {
        "x": x,
        "gate_up": draws.bell((2 * WIDTH, HIDDEN), 2 * HIDDEN**-0.5).bfloat16(),
        "down": draws.bell((HIDDEN, WIDTH), WIDTH**-0.5).bfloat16(),
        "beta": 4.0,
        "linear_beta": 25.0,
    }
    sizes = {"tp": tp, "batch": ROWS, "regime": regime}
    return Call(stage, sizes, inputs, {"partial": ((ROWS, HIDDEN), torch.bfloat16)})


def unrounded(i: Mapping[str, Any]) -> torch.Tensor:
    """The gated MLP in float64 by torch's layers, its activation written out as the model's configuration defines
    it."""
    gate, up = torch.nn.functional.linear(i["x"][:ROWS].double(), i["gate_up"].double()).chunk(2, -1)
    bounded = 4 * torch.tanh(gate / 4) * torch.nn.functional.silu(gate) / gate
    return torch.nn.functional.linear(bounded * 25 * torch.tanh(up / 25), i["down"].double())


def reference(subject: Call) -> torch.Tensor:
    return importlib.import_module(f"validate.reference.{subject.stage}").reference(subject, Points("common"))["partial"].value


@pytest.mark.parametrize("stage", ["shared_experts", "dense_mlp"])
@pytest.mark.parametrize("regime", [ROWS, 8])
def test_agrees_with_torch_up_to_two_roundings(stage: str, regime: int) -> None:
    subject = call(stage, regime=regime)
    value, expected = reference(subject), unrounded(subject.inputs)
    assert value.shape == (ROWS, HIDDEN)
    assert 0 < float((value - expected).norm() / expected.norm()) < 2.0**-8


@pytest.mark.parametrize("stage", ["shared_experts", "dense_mlp"])
def test_ranks_add_up_to_the_whole(stage: str) -> None:
    """Two halves of the intermediate width, as two ranks hold them: hidden values are the same, so the sum is, too."""
    whole = call(stage)
    i, half = whole.inputs, WIDTH // 2
    total = torch.zeros(ROWS, HIDDEN, dtype=torch.float64)
    for rank in range(2):
        part = slice(rank * half, (rank + 1) * half)
        gate_up = torch.cat([i["gate_up"][:WIDTH][part], i["gate_up"][WIDTH:][part]])
        inputs = {**i, "gate_up": gate_up, "down": i["down"][:, part].contiguous()}
        total += reference(Call(stage, whole.shape, inputs, whole.empty))
    torch.testing.assert_close(total, reference(whole), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("tp", "regime"), [(8, 3), (16, 3), (8, 16), (16, 64)])
def test_every_order_of_reduction_uses_every_column(tp: int, regime: int) -> None:
    """A single non-zero column of x, and of h, at any place reaches the result in every regime."""
    for subject, stage in (
        (shared_experts.SpecializedSharedExperts, "shared_experts"),
        (dense_mlp.SpecializedDenseMlp, "dense_mlp"),
    ):
        one = call(stage, tp, regime).fresh()
        subject()(one)
        expected = unrounded(one.inputs)
        error = (one.outputs["partial"].double() - expected).norm() / expected.norm()
        assert float(error) < 2.0**-7, stage


def test_small_kernels_sum_lanes_completely() -> None:
    one = call("shared_experts", 8, ROWS)
    one = Call(
        one.stage,
        {"tp": 8, "batch": 1, "regime": 1},
        {**one.inputs, "x": one.inputs["x"][:1]},
        {"partial": ((1, HIDDEN), torch.bfloat16)},
    ).fresh()
    shared_experts.SpecializedSharedExperts()(one)
    plain = one.fresh()
    shared_experts.DefaultSharedExperts()(plain)
    torch.testing.assert_close(one.outputs["partial"].float(), plain.outputs["partial"].float(), rtol=2.0**-7, atol=2.0**-8)
