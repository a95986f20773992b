"""The MoE tail, against torch's own RMSNorm, weighted sums and linear layers."""

import pytest
import torch

from validate.model.call import Call
from validate.model.draws import Draws
from validate.paths.emulated.mailbox import SENTINEL, armed
from validate.paths.emulated.moe_tail import DefaultMoeTail
from validate.reference.moe_tail import reference
from validate.reference.points import Points

RANKS, ROWS, SLOTS, LATENT, HIDDEN, EPS = 8, 2, 4, 512, 64, 1e-5


def call(scale: float = 1.0) -> Call:
    draws = Draws("test", "moe_tail")
    shapes = {"latent": LATENT, "shared_box": HIDDEN, "latent_old": LATENT, "shared_old": HIDDEN}
    buffers = {name: armed((RANKS, ROWS + 2, width)) for name, width in shapes.items()}
    for name in ("latent_old", "shared_old"):
        buffers[name][:, :ROWS] = 1.0
    return Call(
        "moe_tail",
        {"tp": RANKS, "batch": ROWS, "rearm": ROWS},
        {
            "routed": draws.bell((RANKS, ROWS, SLOTS, LATENT), scale).bfloat16(),
            "weights": draws.uniform((ROWS, SLOTS)).bfloat16(),
            "shared": draws.bell((RANKS, ROWS, HIDDEN)).bfloat16(),
            "norm": (draws.uniform((LATENT,)) + 0.5).bfloat16(),
            "up": draws.bell((HIDDEN, LATENT), LATENT**-0.5).bfloat16(),
            "eps": EPS,
        },
        {"out": ((RANKS, ROWS, HIDDEN), torch.bfloat16)},
        buffers,
    )


@pytest.mark.parametrize("scale", [1.0, 2.0**-9])
def test_agrees_with_torch_in_float64(scale: float) -> None:
    """Up to the six declared roundings; the small scale brings the epsilon into play."""
    subject = call(scale)
    i = {name: t.double() for name, t in subject.inputs.items() if isinstance(t, torch.Tensor)}
    latent = torch.einsum("tbsl,bs->bl", i["routed"], i["weights"])
    normed = torch.nn.functional.rms_norm(latent, (LATENT,), i["norm"], EPS)
    expected = torch.nn.functional.linear(normed, i["up"]) + i["shared"].sum(0)
    value = reference(subject, Points("common"))["out"].value
    assert float((value - expected).norm() / expected.norm()) < 2.0**-8
    assert not torch.equal(value, expected)


def test_norm_is_blind_to_the_scale_of_the_routed_rows() -> None:
    """Without the epsilon's help a power of two cancels exactly, with every rounding point in place."""
    one, big = call(2.0**8), call(2.0**12)
    routed = [
        reference(c, Points("common"))["out"].value - c.inputs["shared"].double().sum(0).bfloat16().double() for c in (one, big)
    ]
    torch.testing.assert_close(routed[0], routed[1], rtol=0, atol=2.0**-6)


def test_squares_are_rounded() -> None:
    """One channel of 1.0625: its square 1.12890625 is midway and goes to the even 1.125, which the norm shows."""
    subject = call()
    inputs = dict(subject.inputs)
    routed = torch.zeros_like(inputs["routed"])
    routed[:, :, 0, 5] = 1.0625
    inputs |= {
        "routed": routed,
        "shared": torch.zeros_like(inputs["shared"]),
        "weights": torch.ones_like(inputs["weights"]),
    }
    inputs |= {"norm": torch.full_like(inputs["norm"], 1.0625), "up": torch.ones_like(inputs["up"]), "eps": 0.0}
    value = reference(Call("moe_tail", subject.shape, inputs, subject.empty, subject.buffers), Points("common"))["out"].value
    exact = 1.0625 * LATENT**0.5  # of one channel the norm is the root of the width
    shifted = exact * (1.12890625 / 1.125) ** 0.5
    expected = torch.tensor(shifted).bfloat16().double()
    assert value.unique().tolist() == [float(expected)]
    assert float(expected) != float(torch.tensor(exact).bfloat16())


def test_each_rank_publishes_its_own_partial() -> None:
    subject = call()
    value = reference(subject, Points("common"))["latent"].value
    i = subject.inputs
    expected = torch.stack([(r.double() * i["weights"].double()[..., None]).sum(1) for r in i["routed"]])
    torch.testing.assert_close(value, expected.bfloat16().double(), rtol=2.0**-7, atol=0)


def test_the_layer_before_is_armed_again_and_this_one_is_not() -> None:
    subject = call().fresh()
    DefaultMoeTail()(subject)
    old, new = subject.buffers["latent_old"].view(torch.int32), subject.buffers["latent"][:, :ROWS].view(torch.int32)
    assert bool((old == SENTINEL).all())
    assert not bool((new == SENTINEL).any())
