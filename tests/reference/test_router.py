"""The router's reference against torch's own top-k and vLLM's published formula, and its rules for ties."""

import dataclasses

import pytest
import torch

from validate.model.call import Call
from validate.numerics import acceptance
from validate.numerics.case import Case
from validate.numerics.router import _groups, build
from validate.reference.points import Points
from validate.reference.router import reference, twins


def case(inputs: str, batch: int = 2, tp: int = 8) -> Call:
    return build(Case("router", {"tp": tp, "batch": batch, "regime": batch}, inputs, 0))


@pytest.fixture(scope="module")
def trained() -> Call:
    return case("biased")


def test_agrees_with_torch_in_float64(trained: Call):
    i = trained.inputs
    scores = torch.sigmoid(i["x"].double() @ i["gate"].double().T)
    ids = (scores + i["bias"].double()).topk(16).indices
    weights = scores.gather(1, ids)
    weights = weights / weights.sum(1, keepdim=True) * 2.5
    found = reference(trained, Points("common"))
    torch.testing.assert_close(found["weights"].value, weights)
    assert acceptance.choice("ids", ids.int(), found["ids"]).passed


def test_weights_sum_to_the_scaling(trained: Call):
    found = reference(trained, Points("common"))["weights"].value
    torch.testing.assert_close(found.sum(1), torch.full((2,), 2.5, dtype=torch.float64))


def test_bias_changes_the_choice_but_not_a_score(trained: Call):
    plain = dataclasses.replace(trained, inputs={**trained.inputs, "bias": torch.zeros(896)})
    with_bias, without = (reference(c, Points("common"))["ids"] for c in (trained, plain))
    difference = with_bias.scores - without.scores
    torch.testing.assert_close(difference, trained.inputs["bias"].double().expand(2, -1), atol=1e-12, rtol=0)
    assert set(with_bias.scores[0].topk(16).indices.tolist()) != set(without.scores[0].topk(16).indices.tolist())


def test_weights_follow_the_choice_that_was_made(trained: Call):
    ids = torch.arange(32, dtype=torch.int32).view(1, 2, 16).expand(8, -1, -1)
    found = reference(trained, Points("common", given={"ids": ids}))["weights"].value
    i = trained.inputs
    scores = torch.sigmoid(i["x"].double() @ i["gate"].double().T)
    picked = torch.stack([scores[0, :16], scores[1, 16:32]])
    torch.testing.assert_close(found, picked / picked.sum(1, keepdim=True) * 2.5)


def test_twins_are_the_tied_triples():
    i = case("tied").inputs
    found = twins(i["gate"], i["bias"])
    expected = torch.full((896,), -1)
    groups = _groups()
    expected[groups[:, 1]], expected[groups[:, 2]] = groups[:, 0], groups[:, 1]
    assert torch.equal(found, expected)


def test_tie_must_go_to_the_lower_id():
    call = case("tied")
    expected = reference(call, Points("common"))["ids"]
    # float64 sums of equal rows may differ in their last bit, so ties are made exact before they are sorted.
    exact = expected.scores.clone()
    for a, b, c in _groups().tolist():
        exact[:, b] = exact[:, a]
        exact[:, c] = exact[:, a]
    low = torch.sort(exact, dim=1, descending=True, stable=True).indices[:, :16]
    high = 895 - torch.sort(exact.flip(1), dim=1, descending=True, stable=True).indices[:, :16]
    assert acceptance.choice("ids", low.int(), expected).passed
    assert not acceptance.choice("ids", high.int(), expected).passed


def test_close_scores_may_change_places_but_distant_ones_may_not():
    call = case("close")
    expected = reference(call, Points("common"))["ids"]
    ids = expected.scores.topk(16).indices.int()
    # The last triple is cut: exchanging its member for one left out is within the error of an fp32 logit.
    group = next(g for g in _groups().tolist() if 0 < len(set(g) & set(ids[0].tolist())) < 3)
    inside, outside = (set(group) & set(ids[0].tolist())).pop(), (set(group) - set(ids[0].tolist())).pop()
    swapped = torch.where(ids == inside, outside, ids)
    first_row = dataclasses.replace(expected, scores=expected.scores[:1], error=expected.error[:1])
    assert acceptance.choice("ids", swapped[:1], first_row).passed
    worst = int(expected.scores[0].argmin())
    wrong = torch.where(ids == inside, worst, ids)
    assert not acceptance.choice("ids", wrong, expected).passed


def test_padded_rows_take_any_distinct_ids_in_range():
    call = case("padded", 4)
    expected = reference(call, Points("common"))["ids"]
    ids = torch.where(expected.scores == 0, -1.0, expected.scores).topk(16).indices.int()
    ids[3] = torch.arange(100, 116)
    assert acceptance.choice("ids", ids, expected).passed
    for bad in (896, -1, 101):
        ids[3, 0] = bad
        assert not acceptance.choice("ids", ids, expected).passed


def test_zero_rows_tie_exactly_in_id_order():
    expected = reference(case("zeros"), Points("common"))["ids"]
    first = torch.arange(16, dtype=torch.int32).expand(2, -1)
    assert acceptance.choice("ids", first, expected).passed
    assert not acceptance.choice("ids", first + 1, expected).passed
