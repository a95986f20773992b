"""Servers of an arm: what is sent, retries, replicas, and what is an error."""

from collections import Counter
from contextlib import ExitStack
from typing import Any

import pytest

from evals.running.asking import Question, Reply
from evals.running.servers import Servers
from tests.equivalence.doubles import arm_set
from tests.evals.running.doubles import Trouble, content, served
from validate.equivalence.arm import ArmSet
from validate.equivalence.engine import Lost
from validate.errors import InputError

PAUSES = (0.01, 0.02)
GENERATION = {"temperature": 1.0, "top_p": 0.95, "max_gen_toks": 99, "chat_template_kwargs": {"thinking": True}}


def arms() -> ArmSet:
    made = arm_set(stand_in=False)
    return made.model_copy(update={"engine": made.engine | {"max_model_len": 2048}})


def questions(n: int) -> list[Question]:
    return [Question("t", f"{i}", 0, [{"role": "user", "content": f"What is {i}?"}], 100 + i, GENERATION) for i in range(n)]


def replies(urls: list[str], n: int, concurrency: int = 4) -> dict[str, Reply]:
    found: dict[str, Reply] = {}

    def replied(question: Question, reply: Reply) -> None:
        assert question.item not in found
        found[question.item] = reply

    Servers(urls, arms(), concurrency, PAUSES, silence=5).ask(questions(n), replied)
    return found


def right(found: dict[str, Reply], n: int) -> bool:
    return {item: reply.content for item, reply in found.items()} == {f"{i}": content(100 + i, f"What is {i}?") for i in range(n)}


def test_what_is_sent_and_what_is_read() -> None:
    with served() as (url, asked):
        found = replies([url], 3)
    assert right(found, 3)
    one = found["0"]
    assert (one.reasoning, one.finish, one.prompt_tokens, one.tokens, one.attempts) == ("I think.", "stop", 11, 4, 1)
    sent = {body["messages"][0]["content"]: body for body in asked}["What is 2?"]
    assert sent["seed"] == 102
    assert (sent["temperature"], sent["top_p"], sent["max_completion_tokens"]) == (1.0, 0.95, 99)
    assert sent["chat_template_kwargs"] == {"thinking": True}
    assert len({body["seed"] for body in asked}) == 3


@pytest.mark.parametrize("trouble", [Trouble(times=2), Trouble(breaks=2), Trouble(answer=(429, "slow down"), times=1)])
def test_what_may_get_better_is_asked_again(trouble: Trouble) -> None:
    with served(trouble) as (url, asked):
        found = replies([url], 4)
    assert right(found, 4)
    assert sum(reply.attempts - 1 for reply in found.values()) == len(asked) - 4 > 0


def test_a_request_that_never_succeeds_is_an_error() -> None:
    with served(Trouble(times=1000)) as (url, asked):
        found = replies([url], 2)
    assert len(asked) == 10
    for reply in found.values():
        assert (reply.error, reply.content, reply.attempts) == ("no response in 5 attempts", None, 5)
        assert "busy" in reply.detail


def test_a_request_that_is_refused_is_an_error_at_once_and_the_others_go_on() -> None:
    with served(Trouble(answer=(400, "it quotes What is 0?"), times=1)) as (url, asked):
        found = replies([url], 3)
    assert len(asked) == 3
    (failed,) = [reply for reply in found.values() if reply.error]
    assert failed.error == "the server answers 400"  # nothing of what is asked: that is in the detail
    assert "What is 0?" in failed.detail


def test_a_server_that_refuses_everybody_ends_the_run() -> None:
    with served(Trouble(answer=(401, "who are you"), times=1000)) as (url, _), pytest.raises(InputError, match="401"):
        replies([url], 3)


def test_requests_are_spread_and_bounded_at_each_replica() -> None:
    troubles = [Trouble(seconds=0.02), Trouble(seconds=0.02)]
    with ExitStack() as stack:
        made = [stack.enter_context(served(trouble)) for trouble in troubles]
        found = replies([url for url, _ in made], 40, concurrency=3)
    assert right(found, 40)
    assert min(len(asked) for _, asked in made) >= 10
    assert [trouble.most for trouble in troubles] == [3, 3]


def test_a_replica_that_dies_leaves_its_requests_to_the_other() -> None:
    with served(Trouble(dies_after=3)) as (dying, _), served(Trouble(seconds=0.01)) as (sound, asked):
        servers = Servers([dying, sound], arms(), 2, PAUSES, silence=5)
        found: dict[str, Reply] = {}
        servers.ask(questions(20), lambda question, reply: found.update({question.item: reply}))
        assert right(found, 20)
        assert not any(reply.error for reply in found.values())
        assert len(asked) >= 17
        assert list(servers.account()) == [sound]


def test_where_none_is_left_the_run_ends_and_no_answer_is_made_up() -> None:
    found: list[Reply] = []
    with served(Trouble(dies_after=3)) as (url, _):
        servers = Servers([url], arms(), 2, PAUSES, silence=5)
        with pytest.raises(Lost):
            servers.ask(questions(20), lambda _, reply: found.append(reply))
        with pytest.raises(Lost):
            servers.account()
    assert len(found) == 3
    assert not any(reply.error for reply in found)


def test_steps_are_counted_since_the_last_account() -> None:
    with served() as (url, _):
        servers = Servers([url], arms(), 2, PAUSES, silence=5)
        servers.account()
        servers.ask(questions(3), lambda *_: None)
        counts = [[step["count"] for step in servers.account()[url].steps[0]["steps"]] for _ in range(2)]
    assert counts == [[15], []]


def test_prompts_are_counted_by_the_server() -> None:
    with served() as (url, _):
        assert Servers([url], arms(), 2, PAUSES).count(questions(1)[0]) == len("What is 0?")


def test_a_server_of_another_window_is_refused() -> None:
    with served(longest=100) as (url, _), pytest.raises(InputError, match="max_model_len 100, and the arm file 2048"):
        Servers([url], arms(), 2, PAUSES)


def test_loops_are_seen_in_ids_and_without_them_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "I check. " * 40
    monkeypatch.setattr("tests.evals.running.doubles.content", lambda *_: said)
    for ids, loop in ((True, False), (False, True)):
        with served(Trouble(ids=ids)) as (url, _):
            found = replies([url], 1)
        assert found["0"].loop is loop  # the ids of the double do not repeat


def test_workers_take_what_the_others_failed_at() -> None:
    with served(Trouble(times=3)) as (first, _), served() as (second, asked):
        found = replies([first, second], 12)
    assert right(found, 12)
    counts: Counter[Any] = Counter(body["seed"] for body in asked)
    assert max(counts.values()) == 1


@pytest.mark.parametrize(
    "event",
    [
        [1],
        {"choices": [None]},
        {"choices": [{"delta": {"content": ["a"]}}]},
        {"choices": [{"delta": {}, "finish_reason": 3}]},
        {"choices": [], "usage": {"prompt_tokens": "many"}},
    ],
)
def test_an_event_of_another_form_is_an_error_of_its_request(event: Any) -> None:
    with served(Trouble(event=event)) as (url, _):
        (found,) = replies([url], 1).values()
    assert (found.error, found.detail) == ("no response in 5 attempts", "an event of the stream is none of a chat completion")


def test_half_a_character_is_replaced() -> None:
    with served(Trouble(event={"choices": [{"delta": {"content": "a\ud83d"}}]})) as (url, _):
        (found,) = replies([url], 1).values()
    assert (found.content or "").startswith("a?")


def test_an_address_of_several_servers_is_refused() -> None:
    with served(Trouble(processes=2)) as (url, _), pytest.raises(InputError, match=f"{url} leads to several servers"):
        Servers([url], arms(), 2, PAUSES)


def test_one_server_named_twice_and_servers_of_different_models_are_refused() -> None:
    with served() as (url, _), served(Trouble(model="other")) as (other, _):
        with pytest.raises(InputError, match="is given twice"):
            Servers([url, url], arms(), 2, PAUSES)
        with pytest.raises(InputError, match="serve different models: m, other"):
            Servers([url, other], arms(), 2, PAUSES)
