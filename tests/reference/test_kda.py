"""The KDA reference against flash-linear-attention's naive recurrence and torch's own layers."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.nn import functional

from validate.model.call import Call, Expected
from validate.numerics import kda
from validate.numerics.case import Case
from validate.reference.kda import reference
from validate.reference.points import Points

# fla computes in fp32: sums of 128 products, then a few roundings. Measured: outputs 1.8e-7, states 8e-8.
FP32_SUMS = 1e-6


@pytest.fixture(scope="module")
def fla() -> ModuleType:
    """``fla/ops/kda/naive.py`` alone: the package around it wants a GPU."""
    package = importlib.util.find_spec("fla")
    if package is None or not package.submodule_search_locations:
        pytest.skip("flash-linear-attention is not installed: pip install --no-deps fla-core einops")
    path = Path(next(iter(package.submodule_search_locations))) / "ops" / "kda" / "naive.py"
    spec = importlib.util.spec_from_file_location("fla_kda_naive", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build(rows: int, q: int, inputs: str = "trained", seed: int = 0) -> Call:
    """Kimi K3's real widths at TP16: 6 heads."""
    return kda.build(Case("kda", {"tp": 16, "batch": rows, "q": q, "regime": rows}, inputs, seed))


def expected(call: Call) -> dict[str, Expected]:
    """The equations with the one rounding that both paths have, the projected gate's."""
    return reference(call, Points("common"))


def by_layers(call: Call, b: int, naive: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs [q, H * D] and the last state [H, V, K] of request ``b``: torch's layers around fla's recurrence."""
    i = call.inputs
    q, heads, dim = i["slots"].shape[1], i["a_log"].numel(), i["norm"].numel()
    rows, start = slice(b * q, (b + 1) * q), int(i["accepted"][b]) - 1
    taps = call.buffers["conv"][i["slots"][b, 0], :, start : start + 3].double()
    window = torch.cat([taps, i["x"][rows].double().T], 1)[None]
    weight = i["conv_weight"].double()[:, None]
    mixed = functional.silu(functional.conv1d(window, weight, groups=len(weight)))[0].T
    query, key, value = mixed.view(q, 3, heads, dim).unbind(1)
    query, key = (x / (x.square().sum(-1, keepdim=True) + i["l2_eps"]).sqrt() for x in (query, key))
    logit = functional.linear(i["f_a"][rows].double(), i["f_b"].double()).bfloat16().double() + i["dt_bias"].double()
    decay = i["lower_bound"] * torch.sigmoid(i["a_log"].double().exp()[:, None] * logit.view(q, heads, dim))
    beta = torch.sigmoid(i["beta"][rows].double())
    state = call.buffers["state"][i["slots"][b, start]].transpose(1, 2)[None]  # fla keeps [K, V]
    attended, last = naive.naive_recurrent_kda(
        query[None], key[None], value[None], decay[None], beta[None], initial_state=state, output_final_state=True
    )
    normed = functional.rms_norm(attended[0], (dim,), i["norm"].double(), i["norm_eps"])
    return normed.reshape(q, -1) * torch.sigmoid(i["gate"][rows].double()), last[0].transpose(1, 2)


def relative(value: torch.Tensor, other: torch.Tensor) -> float:
    return float((value - other).norm() / other.norm())


SIZES = [(3, 1, "trained"), (2, 1, "saturated"), (8, 4, "trained"), (4, 2, "faint")]


@pytest.mark.parametrize(("rows", "q", "inputs"), SIZES)
def test_outputs_and_states_are_those_of_fla(fla: ModuleType, rows: int, q: int, inputs: str) -> None:
    call = build(rows, q, inputs)
    found = expected(call)
    where = found["state"].where
    assert where is not None
    states = dict(zip(where[0].tolist(), found["state"].value, strict=True))
    for b in range(rows // q):
        out, last = by_layers(call, b, fla)
        assert relative(found["out"].value[b * q : (b + 1) * q], out) < FP32_SUMS
        assert relative(states[int(call.inputs["slots"][b, -1])], last) < FP32_SUMS


def test_a_verify_step_is_a_row_of_decode_steps() -> None:
    """Fed one by one, each from the state and taps that the step before left, the tokens give the same in float64."""
    q = 4
    call = build(q, q)
    found, i = expected(call), call.inputs
    start = int(i["accepted"][0]) - 1
    taps = call.buffers["conv"][i["slots"][0, 0], :, start : start + 3].double()
    state = call.buffers["state"][i["slots"][0, start]].double()
    for t in range(q):
        row = {name: i[name][t : t + 1] for name in ("x", "gate", "f_a", "beta")}
        one = {"slots": torch.tensor([[1]]), "accepted": torch.tensor([1])}
        step = Call(
            "kda",
            {"tp": 16, "batch": 1, "q": 1, "regime": 1},
            {**i, **row, **one},
            call.empty,
            {"conv": torch.stack([taps, taps]), "state": torch.stack([state, state])},
        )
        after = expected(step)
        taps, state = after["conv"].value[0], after["state"].value[0]
        assert relative(after["out"].value[0], found["out"].value[t]) < 1e-12  # batched sums have another order


def test_padded_requests_give_zeros_and_touch_no_slot() -> None:
    call = build(4, 1, "padded")
    found = expected(call)
    padded = (call.inputs["slots"][:, 0] <= 0).nonzero()[:, 0]
    assert len(padded)
    assert (found["out"].value[padded] == 0).all()
    assert not found["out"].value.isnan().any()
    for name in ("state", "conv"):
        where = found[name].where
        assert where is not None
        assert 0 not in where[0]


def test_without_decay_and_at_full_strength_the_newest_value_is_recalled() -> None:
    """The delta rule's purpose: with beta = 1 the state returns exactly the value that its last key was given."""
    call = build(1, 1)
    i = {**call.inputs, "beta": torch.full_like(call.inputs["beta"], 300.0)}
    found = expected(Call(call.stage, call.shape, i, call.empty, call.buffers))
    heads, dim = i["a_log"].numel(), i["norm"].numel()
    taps = call.buffers["conv"][i["slots"][0, 0], :, :3].double()
    mixed = functional.silu((torch.cat([taps, i["x"].double().T], 1) * i["conv_weight"].double()).sum(1))
    _, key, value = mixed.view(3, heads, dim)
    key = key / (key.square().sum(-1, keepdim=True) + i["l2_eps"]).sqrt()
    recalled = torch.einsum("hvk,hk->hv", found["state"].value[0], key)
    assert relative(recalled, value) < 1e-5  # the epsilon under the key's norm: 1e-6 of its square
