"""Scenes: the same on every machine, with the lengths and compositions that they are named for."""

import pytest

from tests.equivalence.doubles import arm_set
from validate.equivalence import arm, order, scenes
from validate.equivalence.prompts import seeded
from validate.equivalence.scenes import Facts, Scene, build, digest, with_tokens
from validate.errors import InputError

FACTS = Facts(block=16, chunk=40, longest=200, running=4)


def made(**fields: object) -> list[Scene]:
    arms = arm_set({"name": "s", "tokens": 4, **fields})
    return build(arms.scenes, FACTS, seeded(0, (3, 90)))


def lengths(scene: Scene) -> list[int]:
    return [len(request.prompt) for request in scene.requests]


def test_prompts_depend_on_seed_and_name() -> None:
    draw = seeded(0, (3, 90))
    assert draw("a", 50) == seeded(0, (3, 90))("a", 50)
    assert draw("a", 5) == draw("a", 50)[:5]
    assert draw("a", 50) != draw("b", 50)
    assert draw("a", 50) != seeded(1, (3, 90))("a", 50)
    assert {3, 89} <= set(draw("a", 2000)) <= set(range(3, 90))


def test_boundaries_lie_around_every_multiple() -> None:
    (blocks,) = made(kind="boundaries", unit="block", multiples=[1, 3])
    (chunks,) = made(kind="boundaries", unit="chunk", multiples=[2])
    assert lengths(blocks) == [15, 16, 17, 47, 48, 49]
    assert lengths(chunks) == [79, 80, 81]  # 81: a last chunk of one token
    assert not blocks.composed


def test_requests_run_together() -> None:
    one, five = made(kind="together", sizes=[1, 5], lengths=[2, 6], decode_only=True)
    assert (one.name, five.name) == ("s-1", "s-5")
    assert lengths(one) == [2]
    assert sorted(lengths(five)) == [2, 3, 4, 5, 6]
    assert five.decode_only
    assert five.composed


def test_a_chunked_prompt_has_a_last_chunk_of_one_token() -> None:
    (scene,) = made(kind="chunked", requests=2, chunks=2)
    assert lengths(scene) == [8, 81, 91]


def test_warm_prompts_share_whole_blocks() -> None:
    (scene,) = made(kind="prefix", requests=2, blocks=2)
    cold, same, *warm = scene.requests
    assert same.prompt == cold.prompt
    assert all(one.prompt[:32] == cold.prompt[:32] and one.prompt != cold.prompt and one.wave == 1 for one in warm)
    assert scene.proves == "cached"


def test_more_requests_than_places() -> None:
    (scene,) = made(kind="slots", rounds=2, lengths=[2, 6])
    assert len(scene.requests) == 2 * FACTS.running + 1
    assert {request.tokens for request in scene.requests} == {1, 2, 3, 4}


def test_step_times_follow_the_protocol() -> None:
    (arms,) = (arm.load("step-times"),)
    found = build(arms.scenes, Facts(16, 8192, 2048, 64), seeded(0, arms.prompt_ids))
    assert [scene.name for scene in found[:3]] == ["running-1-run1", "running-1-run2", "running-1-run3"]
    assert len(found) == 8 * 3
    for running in range(1, 9):
        requests = found[3 * running - 1].requests
        assert [r.wave for r in requests] == [wave for wave in range(4) for _ in range(running)]
        assert {(len(r.prompt), r.tokens, r.ignore_eos) for r in requests} == {(1, 1024, True)}


def test_a_request_that_is_too_long_is_named() -> None:
    with pytest.raises(InputError, match=r"scene s: length-197 has 197 \+ 4 tokens, and max_model_len is 200"):
        made(kind="alone", lengths=[197])


def test_the_plan_is_of_everything_that_is_asked() -> None:
    plain = {"kind": "together", "sizes": [2], "lengths": [3, 5]}
    assert digest(made(**plain)) == digest(made(**plain))
    assert len({digest(made(**plain | change)) for change in ({}, {"sizes": [3]}, {"tokens": 5}, {"decode_only": True})}) == 4


def test_forced_requests_decode_what_was_decoded() -> None:
    stops = {"kind": "stops", "name": "s", "requests": 1, "lengths": [2, 3], "ids": [5], "tokens": 9}
    arms = arm_set(stops, {"kind": "forced", "name": "again", "of": ["s"]})
    greedy, forced = build(arms.scenes, FACTS, seeded(0, (3, 90)))
    assert (forced.name, forced.of) == ("again-s", "s")
    tokens = {request.name: (7, 8, 5) for request in greedy.requests}
    for one, before in zip(with_tokens(forced, tokens).requests, greedy.requests, strict=True):
        assert (one.forced, one.tokens, one.kind, one.stop_ids, one.ignore_eos) == ((7, 8, 5), 3, "forced", (), True)
        assert one.prompt == before.prompt
    with pytest.raises(InputError, match="no tokens to force for ids-0: record s of the default arm first"):
        with_tokens(forced, {})


def test_dictated_requests_decode_all_of_a_text_but_its_first_token() -> None:
    arms = arm_set({"kind": "dictated", "name": "s", "requests": 3, "length": 20})
    (scene,) = build(arms.scenes, FACTS, seeded(0, (3, 90)))
    assert (scene.forced, scene.decode_only, scene.of) == (True, True, None)
    texts = [request.prompt + request.forced for request in scene.requests]
    assert texts == [seeded(0, (3, 90))(f"s/{n}", 20) for n in range(3)]
    assert {(len(r.prompt), r.tokens, r.kind, r.ignore_eos) for r in scene.requests} == {(1, 19, "forced", True)}


def submitted(scene: Scene, *, one_by_one: bool) -> list[list[str]]:
    """What is submitted before each step, if every request decodes a token a step."""
    due, found, progress, ended = (
        order.Order(scene.requests, one_by_one=one_by_one),
        list[list[str]](),
        dict[str, int](),
        set[str](),
    )
    tokens = {request.name: request.tokens for request in scene.requests}
    while not due.over(ended):
        found.append([request.name for request in due.due(progress, ended)])
        progress |= dict.fromkeys(found[-1], 0)
        for name in progress:
            progress[name] += name not in ended
            if progress[name] == tokens[name]:
                ended.add(name)
    return found


def test_requests_are_submitted_together_in_waves_and_when_others_have_decoded() -> None:
    (waves,) = made(kind="prefix", requests=1, blocks=1)
    assert [names for names in submitted(waves, one_by_one=False) if names] == [["cold"], ["same", "warm-0"]]
    (late,) = made(kind="arrivals", first=2, later=2, every=2, lengths=[2, 3], tokens=8)
    assert submitted(late, one_by_one=False)[:5] == [["0", "1"], [], ["2"], [], ["3"]]


def test_default_again_asks_the_same_among_other_neighbours() -> None:
    (scene,) = made(kind="together", sizes=[3], lengths=[3, 5])
    other = order.again(scene, seeded(0, (3, 90)))
    assert [r for r in other.requests if not r.name.startswith(order.COMPANION)] == list(reversed(scene.requests))
    assert submitted(other, one_by_one=True)[:4] == [["companion-0"], ["2"], ["1"], ["0"]]
    assert submitted(scene, one_by_one=False)[0] == ["0", "1", "2"]


def test_preemption_is_asked_for_once() -> None:
    (scene,) = made(kind="preemption", requests=2, lengths=[2, 3], after=3)
    due = order.Order(scene.requests, one_by_one=False, preempt_after=scene.preempt_after)
    due.due({}, set())
    assert [due.preempt({"0": n}) for n in range(6)] == [False, False, False, True, False, False]


def test_a_companion_decodes_as_long_as_the_longest() -> None:
    (scene,) = made(kind="slots", rounds=1, lengths=[2, 3], tokens=6)
    companion = order.again(scene, seeded(0, (3, 90))).requests[0]
    assert companion.tokens == max(request.tokens for request in scene.requests)
    assert scenes.digest([scene]) != scenes.digest([order.again(scene, seeded(0, (3, 90)))])
