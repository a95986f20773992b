"""The output projection over ranks, against the undivided layer and against brute force over orders of summation."""

import itertools

import pytest
import torch

from validate.model.call import Call
from validate.model.draws import Draws
from validate.paths.emulated.mailbox import SENTINEL, armed, fold, poll
from validate.paths.emulated.o_proj import SpecializedOproj
from validate.reference.o_proj import reference
from validate.reference.points import Member, Points, chain_error

HIDDEN, WIDTH, ROWS = 32, 256, 3


def call(tp: int = 8, write: int = 0) -> Call:
    draws = Draws("test", "o_proj", tp, write)
    return Call(
        "o_proj",
        {"tp": tp, "batch": ROWS, "regime": ROWS, "write": write, "parity": 0},
        {"local": draws.bell((tp * ROWS, WIDTH)).bfloat16(), "weight": draws.bell((HIDDEN, WIDTH), 0.1).bfloat16()},
        {"delta": ((tp, ROWS, HIDDEN), torch.bfloat16)},
        {
            "prefix": draws.bell((ROWS, HIDDEN)).bfloat16().expand(tp, -1, -1).clone(),
            "mailbox": armed((2, tp, ROWS + 2, HIDDEN)),
            "gather": armed((2, ROWS + 2, HIDDEN)),
        },
    )


@pytest.mark.parametrize("tp", [1, 8, 16])
def test_delta_is_the_undivided_layer(tp: int) -> None:
    """One wide linear layer over the concatenated heads, up to the partials' roundings."""
    subject = call(tp)
    wide = subject.inputs["local"].view(tp, ROWS, WIDTH).transpose(0, 1).reshape(ROWS, -1).double()
    expected = torch.nn.functional.linear(wide, subject.inputs["weight"].double().repeat(1, tp))
    value = reference(subject, Points("common"))["delta"].value
    partials = torch.einsum(
        "trk,hk->trh", subject.inputs["local"].view(tp, ROWS, WIDTH).double(), subject.inputs["weight"].double()
    )
    assert bool(((value - expected).abs() <= 2.0**-8 * partials.abs().sum(0)).all())
    assert not torch.equal(value, expected)  # the partials are rounded


@pytest.mark.parametrize("write", [0, 1])
def test_prefix_restarts_at_write_layers(write: int) -> None:
    subject = call(write=write)
    found = reference(subject, Points("common"))
    delta = found["delta"].value.bfloat16().double()
    base = torch.zeros_like(delta) if write else subject.buffers["prefix"][0].double()
    assert torch.equal(found["prefix"].value, base + delta)


def test_chain_error_covers_every_order() -> None:
    """Brute force: all orders of adding six bf16 numbers in fp32, exact and cancelling ones."""
    draws = Draws("test", "orders")
    terms = draws.bell((6, 64)).bfloat16().double()
    terms[0, ::2], terms[1, ::2] = 2.0**24, -(2.0**24)
    allowed = chain_error(terms)
    worst = torch.zeros(64, dtype=torch.float64)
    for order in itertools.permutations(range(6)):
        total = torch.zeros(64)
        for n in order:
            total = total + terms[n].float()
        worst = torch.maximum(worst, (total.double() - terms.sum(0)).abs())
    assert bool((worst <= allowed).all())
    assert bool((allowed[1::2] == 0).any())
    assert bool((worst[::2] > 0).any())


def test_members_differ_only_where_an_error_is_declared() -> None:
    subject = call()
    nominal, up = (reference(subject, Points("common", member))["delta"].value for member in (Member.NOMINAL, Member.UP))
    assert 0 < int((nominal != up).sum()) < nominal.numel()


def test_no_payload_is_the_sentinel() -> None:
    """Every pair of signed zeros, subnormals and ordinary numbers, as words."""
    values = torch.tensor([0.0, -0.0, 2.0**-133, -(2.0**-133), 1.0, -1.0]).bfloat16()
    pairs = torch.cartesian_prod(values, values).repeat_interleave(4, 0).view(-1, 8)
    assert bool((pairs.view(torch.int32) == SENTINEL).any())
    folded = fold(pairs)
    assert not bool((folded.view(torch.int32) == SENTINEL).any())
    assert torch.equal(folded, pairs)  # numbers are the same: -0 equals 0
    assert torch.equal(poll(folded), pairs.float())


def test_a_reader_waits_for_whole_fragments() -> None:
    slots = armed((1, 16))
    slots[0, :6] = 1.0  # the first fragment lacks a word, the second everything
    assert bool(poll(slots).isnan().all())
    slots[0, 6:8] = 1.0
    assert poll(slots).isnan().tolist() == [[False] * 8 + [True] * 8]


@pytest.mark.parametrize("regime", [ROWS, 12, 40])
def test_the_mailbox_is_armed_again(regime: int) -> None:
    """One-shot and two-shot; the rows beyond the prepared ones stay as they are."""
    plain = call()
    local = torch.zeros(8, regime, WIDTH, dtype=torch.bfloat16)
    local[:, :ROWS] = plain.inputs["local"].view(8, ROWS, WIDTH)
    subject = Call(
        plain.stage,
        {**plain.shape, "regime": regime},
        {**plain.inputs, "local": local.view(-1, WIDTH)},
        plain.empty,
        {**plain.buffers, "mailbox": armed((2, 8, regime + 2, HIDDEN)), "gather": armed((2, regime + 2, HIDDEN))},
    ).fresh()
    SpecializedOproj()(subject)
    for name in ("mailbox", "gather"):
        assert bool((subject.buffers[name].view(torch.int32) == SENTINEL).all())
    expected = reference(plain, Points("common"))["delta"].value
    torch.testing.assert_close(subject.outputs["delta"][3].double(), expected, rtol=2.0**-7, atol=2.0**-7)
