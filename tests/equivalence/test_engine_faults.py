"""The catalogue of a whole engine's faults, and that each changes what it is planted in; no engine is needed."""

import pytest
import torch

from validate.errors import InputError
from validate.faults import engine
from validate.model.decoding import Request
from validate.paths.dispatch import Deployment
from validate.standin import weights
from validate.standin.forms import Forms
from validate.standin.specialized import SpecializedForms

D = weights.PRACTICE
STATE = ("stale-slot-after-preemption", "padded-row-written", "state-in-bf16", "taps-of-wrong-offset")


def test_a_fault_takes_the_place_of_one_path() -> None:
    for name, fault in engine.catalogue().items():
        paths = engine.planted(name, SpecializedForms), engine.planted(name, Forms)
        assert (paths[0] is SpecializedForms) == (fault.path is Forms)
        assert (paths[1] is Forms) == (fault.path is SpecializedForms)
    assert engine.planted(None, SpecializedForms) is SpecializedForms


def test_a_name_is_taken_once() -> None:
    engine.catalogue()
    with pytest.raises(ValueError, match="two faults are named logits-scaled"):
        engine.fault("logits-scaled", "")(SpecializedForms)
    with pytest.raises(InputError, match="unknown fault 'nothing' of a whole engine: there are "):
        engine.find("nothing")


def test_each_kind_of_arm_set_shows_some() -> None:
    assert {fault.shown for fault in engine.catalogue().values()} == {
        "bfloat16",
        "float32",
        "drafts",
        "company",
        "evals",
        "long",
        "long in float32",
    }
    assert all(len(fault.stands_for) > 20 for fault in engine.catalogue().values())


@pytest.mark.parametrize("name", ["all-steps-fall-back", "some-steps-fall-back"])
def test_steps_fall_back(name: str) -> None:
    path = engine.planted(name, SpecializedForms)(D)
    served = [path.plan((Request(1),), Deployment()).specialized for _ in range(100)]
    assert sum(served) == {"all-steps-fall-back": 0, "some-steps-fall-back": 90}[name]


def decoded(name: str | None, drafts: int = 0) -> list[torch.Tensor]:
    """States of six slots after 12 steps of three requests, which move to the other three slots half way."""
    path, generator = engine.planted(name, SpecializedForms)(D), torch.Generator().manual_seed(0)
    q = 1 + drafts
    own = {key.removeprefix("layers.0."): value for key, value in weights.first(D, 0).items() if key.startswith("layers.0.")}

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    width = 3 * D.heads * D.head_dim
    cache = drawn(6 * q, D.conv_width - 1 + drafts, width), drawn(6 * q, D.heads, D.head_dim, D.head_dim)
    slots, seen = torch.arange(6 * q).reshape(6, q), []
    for step in range(12):
        own_slots = slots[:3] if step < 6 else slots[3:]
        path.plan((Request(q),) * 3, Deployment(q))
        accepted = 1 + torch.arange(3) % q
        parts = drawn(3, q, width), -drawn(3, q, D.heads, D.head_dim).abs(), drawn(3, q, D.heads).sigmoid()
        seen.append(path.kda_decode(own, cache, parts, own_slots, accepted, torch.ones(3, dtype=torch.bool)))
    return [*seen, *cache]


@pytest.mark.parametrize("name", [*STATE, *(name for name, fault in engine.catalogue().items() if fault.shown == "drafts")])
def test_a_fault_of_states_shows_in_them(name: str) -> None:
    drafts = 2 * (engine.find(name).shown == "drafts")
    same = [torch.equal(a, b) for a, b in zip(decoded(None, drafts), decoded(name, drafts), strict=True)]
    assert not all(same)
