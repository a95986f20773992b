"""What a server of Kimi K3 is asked for long outputs; no server is needed."""

import json
from dataclasses import replace
from typing import Any

import pytest

from validate.equivalence.arm import load
from validate.equivalence.engine import Answer
from validate.equivalence.record import supposed
from validate.equivalence.scenes import Request, build
from validate.equivalence.server import COMPLETIONS, GENERATE, Server
from validate.errors import InputError


class Asked(Server):
    """Says of each prompt that it is three tokens, and keeps what it was asked."""

    def __init__(self, name: str) -> None:
        self.url, self.model, self._arms = "http://none", "k3", load(name)
        self._traces, self.bodies = True, list[dict[str, Any]]()

    def _patiently(self, method: str, path: str, body: Any = None) -> bytes:
        assert (method, path) == ("POST", "/tokenize")
        self.bodies.append(body)
        return json.dumps({"tokens": [7, 8, 9], "count": 3, "max_model_len": 65536}).encode()


@pytest.fixture
def requests() -> dict[str, Request]:
    arms = load("long-gb300-tp8")
    return {f"{s.name}/{r.name}": r for s in build(arms.scenes, supposed(arms), arms.prompt_source()) for r in s.requests}


def test_the_server_makes_the_prompt_and_samples_with_the_requests_seed(requests: dict[str, Request]) -> None:
    server, request = Asked("long-gb300-tp8"), requests["long/sampled-3"]
    prompt = server._prompt(request)
    assert server.bodies == [{"model": "k3", "messages": [{"role": "user", "content": request.text}]}]
    path, body = server._asked(request, prompt)
    assert path == COMPLETIONS
    wanted = {"prompt": [7, 8, 9], "temperature": 1.0, "seed": 3, "max_tokens": 32000, "ignore_eos": False}
    assert {name: body[name] for name in wanted} == wanted
    assert body["skip_special_tokens"] is False  # a control token that leaks must show


def test_greedy_and_replayed_requests_have_no_seed(requests: dict[str, Request]) -> None:
    server = Asked("long-gb300-tp8")
    _, body = server._asked(requests["long/greedy-56"], (7, 8, 9))
    assert ("seed" in body, body["temperature"]) == (False, 0.0)
    path, body = server._asked(replace(requests["replayed-long/sampled-3"], forced=(1, 2)), (7, 8, 9))
    assert (path, body["token_ids"]) == (GENERATE, [7, 8, 9])
    assert body["sampling_params"]["trace_decode_token_ids"] == [1, 2]


def test_texts_and_made_prompts_are_recorded(requests: dict[str, Request]) -> None:
    server, answer = Asked("long-gb300-tp8"), Answer(requests["canary-fresh/0"], prompt=(7, 8, 9))
    for text, token in (("39", 5), ("1", 6)):
        choice = {"token_ids": [token], "text": text, "finish_reason": "stop" if text == "1" else None}
        server._take(answer, {"choices": [choice]}, 0.0)
    made = answer.transcript("canary-fresh")
    assert (made.prompt, made.texts, made.own, made.expects) == ((7, 8, 9), ("391",), ((0, 2),), "391")


def test_an_output_of_nothing_is_recorded(requests: dict[str, Request]) -> None:
    server, answer = Asked("long-gb300-tp8"), Answer(requests["long/sampled-3"], prompt=(7, 8, 9))
    server._take(answer, {"choices": [{"token_ids": [], "text": "", "finish_reason": "stop"}]}, 0.0)
    made = answer.transcript("long")
    assert (made.tokens, made.own, made.texts) == ((), (), ())


def test_turns_are_refused(requests: dict[str, Request]) -> None:
    with pytest.raises(InputError, match="turns are dictated in process alone"):
        Asked("long-gb300-tp8")._asked(replace(requests["long/sampled-3"], turns=((1,),)), (7,))
