"""The final norm's reference against torch's own RMSNorm and vLLM's torch formula."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from validate.model.call import Call
from validate.numerics.case import Case
from validate.numerics.final_norm import INPUTS, build
from validate.reference.final_norm import reference
from validate.reference.points import Points


def case(inputs: str = "trained") -> Call:
    return build(Case("final_norm", {"batch": 3}, inputs, 0))


def out(call: Call, path: str) -> torch.Tensor:
    return reference(call, Points(path))["out"].value


@pytest.mark.parametrize("inputs", ["trained", *INPUTS])
def test_agrees_with_torch(inputs: str):
    call = case(inputs)
    i = call.inputs
    expected = torch.nn.functional.rms_norm(i["x"].double(), (7168,), i["weight"].double(), i["eps"])
    torch.testing.assert_close(out(call, "specialized"), expected, rtol=1e-12, atol=0)


def test_default_multiplies_a_rounded_row():
    """The torch form in vLLM: fp32 up to the normalised row, which then takes the weight's dtype."""
    call = case()
    i = call.inputs
    x = i["x"].float()
    expected = (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + i["eps"])).bfloat16() * i["weight"]
    found = out(call, "default").bfloat16()
    assert float((found != expected).float().mean()) < 1e-3  # fp32 sums beside a rounding boundary
    assert float((out(call, "specialized").bfloat16() != expected).float().mean()) > 0.1


def test_a_row_of_zeros_stays_zero():
    assert bool((out(case("zeros"), "common")[0] == 0).all())


@settings(max_examples=10, deadline=None)
@given(exponent=st.integers(-3, 30))
def test_scale_does_not_matter_without_epsilon(exponent: int):
    call = case()
    plain = dataclasses.replace(call, inputs={**call.inputs, "eps": 0.0})
    scaled = dataclasses.replace(plain, inputs={**plain.inputs, "x": call.inputs["x"] * 2.0**exponent})
    torch.testing.assert_close(out(scaled, "common"), out(plain, "common"), rtol=1e-13, atol=0)
