"""Whether data sets can be had: the cache, the variables that forbid the hub, an answer of the hub."""

import urllib.error
import urllib.request
from email.message import Message

import pytest

from evals.data import reach
from evals.data.sources import AIME25, MRCR_V2
from validate.doctor import data


@pytest.mark.parametrize("variable", reach.OFFLINE)
def test_an_offline_variable_is_named(variable: str) -> None:
    assert reach.out_of_reach(AIME25, {variable: "1"}) == f"aime25 is not in the hub's cache, and {variable} is set"


def test_a_hub_that_answers_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "https://huggingface.co does not answer" in str(reach.out_of_reach(AIME25, {}))
    assert "http://mirror does not answer" in str(
        reach.out_of_reach(AIME25, {"HF_ENDPOINT": "http://mirror", "HF_HUB_OFFLINE": "0"})
    )
    monkeypatch.setattr(reach, "answers", lambda address: True)
    assert reach.out_of_reach(AIME25, {}) is None


def test_what_is_cached_takes_no_hub_and_what_is_not_on_it_says_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "_cached", lambda source, file: True)
    assert reach.out_of_reach(AIME25, {"HF_HUB_OFFLINE": "1"}) is None
    assert "is not on the hub" in str(reach.out_of_reach(MRCR_V2, {}))


def test_a_refusal_is_an_answer_and_silence_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()

    def refused(*_: object, **__: object) -> None:
        raise urllib.error.HTTPError("http://hub", 401, "no", Message(), None)

    def silent(*_: object, **__: object) -> None:
        raise urllib.error.URLError("no route")

    monkeypatch.setattr(urllib.request, "urlopen", refused)
    assert reach.answers("http://refusing")
    monkeypatch.setattr(urllib.request, "urlopen", silent)
    assert not reach.answers("http://silent")


def test_every_set_of_the_suite_is_looked_at() -> None:
    assert [lack.why.split()[0] for lack in data.lacking("gb300-tp16")] == [
        "aime25",
        "gpqa_diamond",
        "gsm8k",
        "mrcr_openai",
        "mrcr_v2",
    ]
