"""The embedding's reference against torch's embedding bag of shards, and its rules for ids at and past the edges."""

import dataclasses

import pytest
import torch

from validate.model.call import Call
from validate.numerics.case import Case
from validate.numerics.embedding import INPUTS, build
from validate.paths.emulated.embedding import DefaultEmbedding, SpecializedEmbedding
from validate.reference.embedding import reference
from validate.reference.points import Points

VOCAB = 163840


def case(inputs: str, batch: int = 40, tp: int = 16) -> Call:
    return build(Case("embedding", {"tp": tp, "batch": batch, "bits": 64}, inputs, 0))


def out(call: Call) -> torch.Tensor:
    return reference(call, Points("common"))["out"].value


@pytest.mark.parametrize("inputs", ["trained", "boundaries", "zeros", "repeated"])
def test_agrees_with_torch_for_ids_of_the_vocabulary(inputs: str):
    call = case(inputs)
    expected = torch.nn.functional.embedding(call.inputs["ids"], call.inputs["table"])
    assert torch.equal(out(call).bfloat16(), expected)


def test_ids_outside_give_zeros():
    call = case("outside")
    ids = call.inputs["ids"]
    outside = (ids < 0) | (ids >= VOCAB)
    assert {-1, VOCAB} <= set(ids.tolist())
    assert bool((out(call)[outside] == 0).all())
    assert bool((out(call)[~outside] != 0).any(1).all())


def test_boundary_ids_lie_on_both_sides_of_every_shard():
    ids = set(case("boundaries").inputs["ids"].tolist())
    for start in range(0, VOCAB, VOCAB // 16):
        assert start in ids
        assert start + VOCAB // 16 - 1 in ids


def test_negative_zeros_turn_positive_where_ranks_are_added():
    many, one = out(case("zeros", 8)), out(case("zeros", 8, tp=1))
    assert not bool(many[many == 0].signbit().any())
    assert bool(one[one == 0].signbit().any())


@pytest.mark.parametrize("stage", [DefaultEmbedding, SpecializedEmbedding])
@pytest.mark.parametrize("inputs", INPUTS)
def test_shards_add_up_to_the_whole_table(inputs: str, stage: type):
    """Each rank alone holds a part; ranks without an id's row hold zeros."""
    call = case(inputs).fresh()
    stage()(call)
    expected = out(call).bfloat16()
    assert torch.equal(call.outputs["out"].view(torch.int16), expected.expand(16, -1, -1).contiguous().view(torch.int16))


def test_types_of_ids_agree():
    call = case("outside")
    short = dataclasses.replace(call, inputs={**call.inputs, "ids": call.inputs["ids"].int()})
    assert torch.equal(out(call), out(short))
