"""The reference of the drafter's context against torch's own layers and a complex rotation, row by row."""

import pytest
import torch
from torch.nn import functional

from validate.model.call import Call
from validate.numerics import judge
from validate.numerics.case import Case
from validate.numerics.draft_context import BLOCK, INPUTS, LAYERS, build
from validate.profiles import load
from validate.reference.draft_context import reference
from validate.reference.points import Points

# Five roundings to bf16 on the way, each of a deviation of up to 2**-8 / sqrt(3), in quadrature: 0.005 of a row's 2-norm.
ROUNDED = 2.0**-7


def made(inputs: str, fp8: int) -> Call:
    return build(Case("draft_context", {"batch": 3, "fp8": fp8}, inputs, 0))


def unrounded(call: Call, token: int, layer: int) -> torch.Tensor:
    """[576] in float64, in units of the layer's scale."""
    i = call.inputs
    context = functional.linear(i["states"][token].double(), i["context_proj"].double())
    context = functional.rms_norm(context, context.shape, i["context_norm"].double(), i["eps"])
    projected = functional.linear(context, i["kv_proj"].double()).view(LAYERS, -1)[layer]
    latent = functional.rms_norm(projected[:512], (512,), i["kv_norm"][layer].double(), i["eps"])
    cosine, sine = i["table"][i["positions"][token]].double().chunk(2)
    rotated = torch.view_as_real(torch.view_as_complex(projected[512:].view(32, 2)) * torch.complex(cosine, sine)).flatten()
    return torch.cat([latent, rotated]) / (1.0 if i["scales"] is None else float(i["scales"][layer]))


@pytest.mark.parametrize(("inputs", "fp8"), [("trained", 0), ("trained", 1), ("padded", 0), ("shared", 0), ("faint", 1)])
def test_rows_are_the_equations_and_lie_in_their_slots(inputs: str, fp8: int) -> None:
    call = made(inputs, fp8)
    found = reference(call, Points("default"))["cache"]
    assert found.where is not None
    rows = {key: row for *key, row in zip(*(w.tolist() for w in found.where), found.value, strict=True) for key in [tuple(key)]}
    slots = call.inputs["slots"].expand(LAYERS, -1) if inputs == "shared" else call.inputs["slots"]
    assert len(rows) == int((slots >= 0).sum())
    for layer in range(LAYERS):
        for token in range(3):
            slot = int(slots[layer, token])
            if slot < 0:
                continue
            row, wanted = rows[layer, slot // BLOCK, slot % BLOCK], unrounded(call, token, layer)
            assert (row - wanted).norm() < (2.0**-4 if fp8 else ROUNDED) * wanted.norm()


def test_saturated_rows_end_at_the_largest_number() -> None:
    value = reference(made("saturated", 1), Points("default"))["cache"].value
    assert value.abs().max() == 448
    assert 0 < (value.abs() == 448).float().mean() < 0.9


def test_padding_has_no_slot_and_one_token_only_some() -> None:
    slots = made("padded", 0).inputs["slots"]
    assert (slots[:, 2] == -1).all()
    call = build(Case("draft_context", {"batch": 8, "fp8": 0}, "padded", 0))
    assert call.inputs["slots"][1, -1] == -1
    assert (call.inputs["slots"][0] >= 0).sum() == 6


def test_every_kind_meets_an_fp8_cache_or_a_bf16_one() -> None:
    cases = judge.cases(load("cpu"), ["draft_context"])
    assert len(cases) <= 25
    assert {case.inputs for case in cases} == set(INPUTS)
    assert ("saturated", 1) in {(case.inputs, case.sizes["fp8"]) for case in cases}
