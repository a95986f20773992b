"""MLA's reference against torch's own attention over expanded keys and values, and properties that need no formula."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from validate.model.cache import paged_cache
from validate.model.call import Call
from validate.model.dimensions import K3
from validate.model.draws import Draws
from validate.numerics import mla as cases
from validate.numerics.case import Case
from validate.reference import mla
from validate.reference.points import Points


class Exact(Points):
    """No rounding anywhere: what is left is the equation."""

    def __call__(self, point, value, error):
        return value


def call(q=2, batch=4, dcp=1, interleave=1, inputs="trained", seed=0) -> Call:
    sizes = {"tp": 16, "batch": batch, "q": q, "regime": batch, "dcp": dcp, "interleave": interleave, "block": 64}
    return cases.build(Case("mla", sizes, inputs, seed))


def expanded(c: Call) -> torch.Tensor:
    """Attention as in prefill: keys and values of every head expanded from the latent, no absorption, no pages."""
    i = c.inputs
    heads, _, width = i["w_uk"].shape
    q = c.shape["q"]
    x = i["x"].double()

    def norm(part, weight):
        return torch.nn.functional.rms_norm(part, (part.shape[-1],), weight.double(), i["eps"])

    start = i["q_norm"].numel()
    query = (norm(x[:, :start], i["q_norm"]) @ i["q_b"].double().T).view(len(x), heads, -1)
    new = torch.cat([norm(x[:, start : start + width], i["kv_norm"]), x[:, start + width : start + width + 64]], 1)
    scale = i["k_scale"]
    out = []
    for b, total in enumerate(i["totals"].tolist()):
        pages = c.buffers["cache"][0, i["table"][b].long()].flatten(0, 1)[: total - q].double() * scale
        # The cache and the query hold FP8; only their rounding is left out here.
        rows = torch.cat([pages, new[b * q : (b + 1) * q]])
        nope_keys = torch.einsum("nl,hpl->hnp", rows[:, :width], i["w_uk"].double())
        keys = torch.cat([nope_keys, rows[:, width:].expand(heads, -1, -1)], -1)
        values = torch.einsum("nl,hlv->hnv", rows[:, :width], i["w_uv"].double())
        seen = torch.ones(q, total, dtype=torch.bool).tril(total - q)
        own = query[b * q : (b + 1) * q].transpose(0, 1)
        out.append(torch.nn.functional.scaled_dot_product_attention(own, keys, values, seen, scale=i["scale"]))
    value = torch.cat([o.transpose(0, 1) for o in out]).flatten(1)
    return value * torch.sigmoid(x[:, -value.shape[1] :])


def test_equals_attention_over_expanded_keys_and_values():
    c = call(inputs="bf16")  # a bf16 cache: the rows that the reference inserts are rounded to bf16, and nothing else is
    found = mla.reference(c, Exact("default"))["out"].value
    torch.testing.assert_close(found, expanded(c), rtol=2e-2, atol=5e-3)


@pytest.mark.parametrize(("shards", "interleave"), [(2, 1), (16, 1), (4, 8)])
def test_shards_add_up_to_the_whole(shards, interleave):
    whole = call(q=1, batch=3)
    i, cache = dict(whole.inputs), whole.buffers["cache"]
    totals = i["totals"].long()
    split = paged_cache(Draws("shards"), totals, 1, 64, K3.mla_row, cache.dtype, shards, interleave)
    for b, total in enumerate(totals.tolist()):
        for p in range(total - 1):
            row = p // (interleave * shards) * interleave + p % interleave
            source = cache[0, i["table"][b, p // 64], p % 64]
            split.pages[p // interleave % shards, split.table[b, row // 64], row % 64] = source
    i |= {"table": split.table, "slots": split.slots, "lengths": split.lengths, "interleave": interleave}
    parts = Call("mla", {**whole.shape, "dcp": shards}, i, whole.empty, {"cache": split.pages})
    one, many = (mla.reference(c, Exact("specialized"))["out"].value for c in (whole, parts))
    torch.testing.assert_close(one, many)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 400), st.integers(1, 16), st.integers(1, 9))
def test_every_position_lies_on_one_shard(total, shards, interleave):
    owners = [p // interleave % shards for p in range(total)]
    counts = [mla.local_rows(total, shard, shards, interleave) for shard in range(shards)]
    assert counts == [owners.count(shard) for shard in range(shards)]


def test_verify_rows_see_themselves_and_what_was_before_them():
    c = call(q=4, batch=4)
    changed = dict(c.inputs)
    changed["x"] = c.inputs["x"].clone()
    changed["x"][2, : K3.q_lora + K3.mla_row] *= -1  # the third token of the request
    before = mla.reference(c, Points("specialized"))["out"].value
    after = mla.reference(Call("mla", c.shape, changed, c.empty, c.buffers), Points("specialized"))["out"].value
    assert torch.equal(before[:2], after[:2])
    assert bool((before[2:] != after[2:]).any(1).all())


def test_nothing_beyond_the_live_rows_counts():
    c = call(inputs="poisoned")
    assert bool(mla.reference(c, Points("specialized"))["out"].value.isfinite().all())


def test_padding_gives_zeros_and_is_not_written():
    found = mla.reference(call(q=1, batch=4, inputs="padded"), Points("specialized"))
    assert found["out"].value[-1].count_nonzero() == 0
    assert len(found["cache"].value) == 3


def test_scales_cancel_but_for_rounding():
    c = call(q=1, batch=2)
    scaled = dict(c.inputs) | {"q_scale": 0.5, "q_scale_inv": 2.0}
    one = mla.reference(c, Exact("specialized"))["out"].value
    two = mla.reference(Call("mla", c.shape, scaled, c.empty, c.buffers), Exact("specialized"))["out"].value
    torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-12)


def test_caches_are_scrambled_and_recycled():
    cache = paged_cache(Draws("cache"), torch.tensor([130, 0, 64]), 2, 64, 8, torch.float8_e4m3fn, nan=True)
    owned = cache.table[cache.table > 0].tolist()
    assert len(set(owned)) == len(owned) == 4
    assert owned != sorted(owned)
    assert int((~cache.pages.float().isnan()).all(-1).sum()) == 128 + 62
    assert (cache.slots[0].view(3, 2) < 0).any(1).tolist() == [False, True, False]
