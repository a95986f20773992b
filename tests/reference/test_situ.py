"""SiTU's reference and its fp32 forms, against torch's own functions and the error bounds that they declare."""

import pytest
import torch

from validate.model.dimensions import K3
from validate.model.draws import Draws
from validate.paths.emulated import situ as forms
from validate.reference import situ as reference

BETA, LAMBDA = K3.situ_beta, K3.situ_linear_beta
ERRORS = {
    "exact": reference.exact_error,
    "reciprocal": reference.exact_error,
    "half": reference.half_error,
    "approximate": reference.approximate_error,
}


def points() -> tuple[torch.Tensor, torch.Tensor]:
    """fp32 gates and ups: every bf16 gate up to 240 (both signs), moderate and saturated ups."""
    gate = torch.arange(0x4370, dtype=torch.int32).to(torch.int16).view(torch.bfloat16).float()
    gate = torch.cat([gate, -gate])
    return gate, Draws("situ").bell((gate.numel(),), 40.0).float()


def test_agrees_with_silu_where_the_bounds_are_far() -> None:
    gate, up = points()
    far = reference.situ(gate.double(), up.double(), 2.0**30, 2.0**30)
    torch.testing.assert_close(far, torch.nn.functional.silu(gate.double()) * up.double())


def test_is_bounded_by_beta_times_lambda() -> None:
    value = reference.situ(torch.tensor([1e6, 1e6, -1e6]).double(), torch.tensor([1e6, -1e6, 1e6]).double(), BETA, LAMBDA)
    assert value.tolist() == [BETA * LAMBDA, -BETA * LAMBDA, 0.0]


def test_slope_at_zero_is_half_the_linear_part() -> None:
    gate = torch.tensor([2.0**-20], dtype=torch.float64)
    value = reference.situ(gate, torch.tensor([1.0], dtype=torch.float64), BETA, LAMBDA)
    assert float(value / gate) == pytest.approx(0.5 * LAMBDA * float(torch.tanh(torch.tensor(1 / LAMBDA).double())), rel=1e-6)


@pytest.mark.parametrize("form", ERRORS)
def test_forms_stay_within_their_declared_error(form: str) -> None:
    gate, up = points()
    value = getattr(forms, form)(gate, up, BETA, LAMBDA).double()
    expected = reference.situ(gate.double(), up.double(), BETA, LAMBDA)
    allowed = ERRORS[form](gate.double(), up.double(), BETA, LAMBDA)
    assert bool(((value - expected).abs() <= allowed).all())


def test_errors_are_not_idle() -> None:
    """The looser forms do leave the tighter forms' bound, so that declaring theirs is needed."""
    gate, up = points()
    expected = reference.situ(gate.double(), up.double(), BETA, LAMBDA)
    tight = reference.exact_error(gate.double(), up.double(), BETA, LAMBDA)
    for form in ("half", "approximate"):
        value = getattr(forms, form)(gate, up, BETA, LAMBDA).double()
        assert bool(((value - expected).abs() > tight).any()), form
