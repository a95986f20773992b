"""Scenes of long outputs: what is asked, what of it is digested, and how the A/A arm asks it."""

from dataclasses import replace

import pytest

from validate.equivalence import order, tasks
from validate.equivalence.arm import load
from validate.equivalence.record import supposed
from validate.equivalence.scenes import Scene, build, digest


@pytest.fixture(scope="module")
def scenes() -> dict[str, Scene]:
    arms = load("long-cpu")
    return {scene.name: scene for scene in build(arms.scenes, supposed(arms), arms.prompt_source())}


def test_canaries_are_the_same_before_and_behind(scenes: dict[str, Scene]) -> None:
    assert scenes["canary-fresh"].requests == scenes["canary-after"].requests
    assert [r.wave for r in scenes["canary-fresh"].requests] == list(range(6))  # one at a time
    assert all(r.expects and not r.ignore_eos for r in scenes["canary-fresh"].requests)


def test_samples_have_seeds_of_their_own_and_greedy_requests_none(scenes: dict[str, Scene]) -> None:
    made = scenes["long"].requests
    assert [r.seed for r in made] == [*range(12), *[None] * 4]
    assert [r.temperature for r in made] == [1.0] * 12 + [0.0] * 4
    assert len({r.prompt for r in made}) == 16
    assert scenes["long"].decode_only


def test_what_is_replayed_is_forced_and_asks_for_nothing_else(scenes: dict[str, Scene]) -> None:
    for before, after in zip(scenes["long"].requests, scenes["replayed-long"].requests, strict=True):
        assert (after.prompt, after.tokens) == (before.prompt, before.tokens)
        assert (after.kind, after.temperature, after.seed, after.turns, after.worded) == ("forced", 0.0, None, (), False)


def test_the_a_a_arm_draws_other_samples_of_the_same_requests(scenes: dict[str, Scene]) -> None:
    source = load("long-cpu").prompt_source()
    again = {r.name: r for r in order.again(scenes["long"], source).requests if not r.name.startswith(order.COMPANION)}
    for request in scenes["long"].requests:
        other = again[request.name]
        assert replace(other, seed=request.seed) == request
        assert (other.seed == request.seed) == (request.seed is None)


def test_everything_that_is_asked_is_in_the_digest(scenes: dict[str, Scene]) -> None:
    whole = list(scenes.values())
    for changed in ({"seed": 5}, {"turns": ((7,),)}, {"text": "Why?"}, {"expects": "no"}, {"temperature": 0.5}, {"tokens": 9}):
        first = scenes["long"].requests[0]
        other = replace(scenes["long"], requests=(replace(first, **changed), *scenes["long"].requests[1:]))
        assert digest([other if scene.name == "long" else scene for scene in whole]) != digest(whole), changed


def test_outputs_come_a_few_at_a_time_where_drafts_take_the_rows() -> None:
    arms = load("long-gb300-tp8-dspark")
    made = {scene.name: scene for scene in build(arms.scenes, supposed(arms), arms.prompt_source())}
    assert list(made) == ["canary-fresh", "long", "canary-after"]
    waves = [request.wave for request in made["long"].requests]
    assert len(waves) == 64
    assert {waves.count(wave) for wave in waves} == {8}
    assert sorted(set(waves)) == list(range(8))


def test_without_turns_the_practice_model_answers_once_and_nothing_is_dictated() -> None:
    asked, once, plain = (next(tasks.long("practice", 1, turns)) for turns in (3, 1, 0))
    assert asked.prompt == once.prompt == plain.prompt
    assert [len(one.turns) for one in (asked, once, plain)] == [3, 1, 0]
    assert plain.stops == ()
