"""Planted long-output faults, without an engine: nothing before they begin, something after."""

import pytest
import torch

from validate.faults.engine import find, long_outputs
from validate.faults.engine.long_outputs import AFTER, EVERY, Placed
from validate.standin import weights
from validate.standin.specialized import SpecializedForms

D = weights.PRACTICE
LOGITS = {
    "zeros-late": [0],
    "padding-late": [0],
    "nan-in-one-of-many": [0],
    "other-script-late": [0],
    "control-token-leaks": [0, 1, 2],
    "ends-early": [0, 1, 2],
    "never-ends": [0, 1, 2],
    "loops-late": [0, 1, 2],
}


def changed(name: str, context: int) -> list[int]:
    """The rows of logits that are not the sound path's, at the end of a few steps up to that context."""
    path, sound = find(name).implementation(D), SpecializedForms(D)
    assert isinstance(path, Placed)
    head = torch.randn(D.vocab, D.hidden, generator=torch.Generator().manual_seed(0))
    for step in range(context - 14, context + 1):
        hidden = torch.randn(3, D.hidden, generator=torch.Generator().manual_seed(step))
        path.steps, path.context = step, torch.full((3,), step)
        logits = path.logits(hidden, head)
    return [row for row in range(3) if not torch.equal(logits[row], sound.logits(hidden, head)[row])]


@pytest.mark.parametrize("name", LOGITS)
def test_logits_are_wrong_from_some_context_on_and_not_before(name: str) -> None:
    assert changed(name, AFTER - 1) == []
    assert changed(name, AFTER) == LOGITS[name]


def test_a_state_is_late_once_in_so_many_steps() -> None:
    path = find("state-late-once").implementation(D)
    assert isinstance(path, Placed)
    kept = []
    for step in range(1, 2 * EVERY + 1):
        state = torch.zeros(2, 1, 1, 1)
        path.steps = step
        path.kda_store(state, torch.tensor([1]), torch.ones(1, 1, 1, 1))
        kept.append(bool(state[1, 0, 0, 0]))
    assert [step for step, stored in enumerate(kept, 1) if not stored] == [EVERY, 2 * EVERY]


def test_a_cache_that_wears_away_does_so_by_context() -> None:
    path, sound = find("precision-wears-away").implementation(D), SpecializedForms(D)
    assert isinstance(path, Placed)
    own = {k.removeprefix("layers.3."): v.float() for k, v in weights.first(D, 0).items() if k.startswith("layers.3.")}
    if "q_norm" not in own:
        pytest.fail("layer 3 of the practice model has MLA")
    rows = [torch.randn(2, size, generator=torch.Generator().manual_seed(size)) for size in (D.q_lora, D.kv_lora, D.qk_rope)]
    path.context = torch.tensor([0, 2 * AFTER])
    value, right = path.mla_heads(own, *rows)[2], sound.mla_heads(own, *rows)[2]
    assert torch.equal(value[0], right[0])
    assert torch.allclose(value[1], 2 * right[1])


@pytest.mark.parametrize("size", [16, 32, 128])
def test_the_page_is_told_by_vllms_own_slots(size: int) -> None:
    class Pages:
        block_table = torch.tensor([[7, 3, 9, 4], [11, 2, 8, 5]])
        slot_mapping = torch.zeros(2)

    path = Placed(D)
    path.context = torch.tensor([size + 3, 2 * size + 1])
    pages = Pages()
    pages.slot_mapping = torch.tensor([3 * size + 3, 8 * size + 1])
    assert path.page(pages) == size
    pages.slot_mapping = torch.tensor([1, 1])
    with pytest.raises(ValueError, match="no page size explains"):
        path.page(pages)


def test_each_stands_for_a_bug() -> None:
    assert long_outputs.AFTER == 2**9
    assert all(len(find(name).stands_for) > 20 for name in LOGITS)


def test_two_requests_share_a_page_once_both_are_long() -> None:
    path = find("page-used-again").implementation(D)
    assert isinstance(path, Placed)
    seen = []
    path.kda_start = lambda slots, accepted: seen.append(slots[:, 0].tolist()) or slots[:, 0]  # type: ignore[method-assign]
    own = {k.removeprefix("layers.0."): v.float() for k, v in weights.first(D, 0).items() if k.startswith("layers.0.")}
    cache = torch.zeros(6, D.conv_width - 1, 3 * D.heads * D.head_dim), torch.zeros(6, D.heads, D.head_dim, D.head_dim)
    parts = torch.zeros(5, 1, 3 * D.heads * D.head_dim), torch.zeros(5, 1, D.heads, D.head_dim), torch.zeros(5, 1, D.heads)
    for context in ([AFTER, AFTER - 1, AFTER, AFTER, AFTER], [AFTER] * 5):
        path.context = torch.tensor(context)
        path.kda_decode(own, cache, parts, torch.arange(5)[:, None], torch.ones(5, dtype=torch.long), torch.ones(5) > 0)
    assert seen == [[0, 1, 2, 2, 4], [0, 0, 2, 2, 4]]
