"""Speculative decoding: drafts change no greedy token, and as many are accepted on both paths."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.equivalence.toy import Arms
from validate.equivalence.compare.comparison import compare, greedily
from validate.equivalence.compare.drafts import acceptance
from validate.records.arm_folder import Arm
from validate.verdict import Verdict

DRAFTED = 70


def drafting(arm: Arm, seed: int, rate: Callable[[int], float]) -> Arm:
    """The arm with 70 drafts a request, of which the given share is accepted, give or take what a request's text does."""
    of_text, own = np.random.default_rng(0), np.random.default_rng(seed)
    answers = []
    for n, t in enumerate(arm.transcripts):
        share = np.clip(rate(n) + 0.15 * of_text.normal() + 0.01 * own.normal(), 0, 1)
        answers.append(t.model_copy(update={"drafted": DRAFTED, "accepted": round(DRAFTED * share)}))
    return replace(arm, transcripts=tuple(answers))


def drafting_arms(sound: Arms, specialized: Callable[[int], float]) -> Arms:
    return Arms(
        drafting(sound.default, 1, lambda n: 0.6),
        drafting(sound.again, 2, lambda n: 0.6),
        drafting(sound.specialized, 3, specialized),
    )


def test_as_many_drafts_accepted(sound: Arms) -> None:
    check, figures = acceptance(drafting_arms(sound, lambda n: 0.6).pairs())
    assert check.verdict is Verdict.PASS
    assert figures is not None
    assert figures.requests == 80
    assert figures.default == pytest.approx(0.6, abs=0.05)


@pytest.mark.parametrize(
    ("rate", "says"),
    [(lambda n: 0.45, "mean differs"), (lambda n: 0.25 if n % 2 else 0.95, "distributed otherwise")],
    ids=["fewer", "as many on the whole"],
)
def test_other_acceptance_is_found(sound: Arms, rate: Callable[[int], float], says: str) -> None:
    check, _ = acceptance(drafting_arms(sound, rate).pairs())
    assert check.verdict is Verdict.FAIL
    assert any(says in finding.text for finding in check.findings)


def test_few_requests_with_drafts_decide_nothing(sound: Arms) -> None:
    pairs = drafting_arms(sound, lambda n: 0.6).pairs()
    assert acceptance(pairs[:7])[0].verdict is Verdict.INCONCLUSIVE
    assert acceptance(sound.pairs())[0].verdict is None


def with_drafts(arm: Arm) -> Arm:
    """The arm as one that drafts, and was recorded elsewhere."""
    drafts = {"speculative_config": {"num_speculative_tokens": 7}, "per_request_spec_decode_metrics": "summary"}
    engine = arm.manifest.engine | drafts | {"enable_trace_replay": False}
    return replace(arm, manifest=arm.manifest.model_copy(update={"engine": engine, "plan": "drafts"}))


def test_answers_with_and_without_drafts(sound: Arms) -> None:
    arms = Arms(*map(with_drafts, drafting_arms(sound, lambda n: 0.6)))
    comparison = compare(arms, undrafted=sound.specialized)
    assert comparison.verdict is Verdict.PASS, [finding.line for finding in comparison.findings]
    assert [d.triage for d in comparison.undrafted] == ["identical"] * 40


def test_an_engine_that_is_to_draft_and_does_not_is_another(sound: Arms) -> None:
    comparison = compare(Arms(*map(with_drafts, sound)))
    assert comparison.verdict is Verdict.INVALID
    assert [finding.text for finding in comparison.findings] == ["acceptance: nothing was drafted"]


def test_with_drafts_greedy_answers_say_what_forced_ones_do(sound: Arms) -> None:
    """Up to the first other token; all logprobs 2 nats lower change no token, no acceptance and no repeat."""
    arms = Arms(*map(with_drafts, drafting_arms(sound, lambda n: 0.6)))
    lower = [t.model_copy(update={"logprobs": tuple(v - 2.0 for v in t.logprobs)}) for t in arms.specialized.transcripts]
    comparison = compare(replace(arms, specialized=replace(arms.specialized, transcripts=tuple(lower))))
    assert comparison.verdict is Verdict.FAIL
    assert comparison.forced is not None
    assert comparison.forced.requests_count == 39  # one of 40 greedy ones parts at once, in a tie
    parted = [
        t.model_copy(update={"tokens": (*t.tokens[:3], 95, *t.tokens[4:])}) if n == 0 else t
        for n, t in enumerate(arms.specialized.transcripts)
    ]
    pairs = replace(arms, specialized=replace(arms.specialized, transcripts=tuple(parted))).pairs()
    assert len(greedily(pairs)[0].specialized.tokens) == len(greedily(pairs)[0].specialized.top) == 3


def test_drafts_that_change_a_token(sound: Arms) -> None:
    wrong = [t.model_copy(update={"tokens": ((t.tokens[0] + 1) % 96, *t.tokens[1:])}) for t in sound.specialized.transcripts]
    undrafted = replace(sound.specialized, transcripts=tuple(wrong))
    comparison = compare(Arms(*map(with_drafts, sound)), undrafted)
    assert comparison.verdict is Verdict.FAIL
    assert comparison.checks[-1].name == "with and without drafts"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"decode_backend": "auto"}, "decode_backend"),
        ({"model": "another"}, "model"),
        ({"engine": {"block_size": 32, "dtype": "bfloat16"}}, "engine.block_size"),
        ({"engine": {"block_size": 16, "dtype": "bfloat16", "speculative_config": {"method": "dspark"}}}, "has one"),
    ],
)
def test_another_engine_without_drafts_is_not_compared(sound: Arms, change: dict[str, object], says: str) -> None:
    other = replace(sound.specialized, manifest=sound.specialized.manifest.model_copy(update=change))
    comparison = compare(Arms(*map(with_drafts, sound)), undrafted=other)
    assert comparison.verdict is Verdict.INVALID
    assert says in comparison.checks[-1].findings[0].text
