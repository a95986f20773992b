"""The comparison of made-up arms: sound ones pass, and each fault is found by the check that is for it, at its place."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.long_output.made_up import ANSWER, ASKED, NAMES, arms, output, pair, with_transcripts
from validate.equivalence.compare.arms import Arms
from validate.long_output.command import found
from validate.long_output.comparing import lengths, rates, summary
from validate.long_output.comparing.comparison import LongComparison, compare
from validate.records.arm import Transcript
from validate.verdict import Verdict

Change = Callable[[Transcript], Transcript]


def faulty(made: Arms, change: Change, scene: str = "long", requests: tuple[int, ...] = (0,)) -> Arms:
    """With ``change`` in some requests of the specialized arm."""
    names = {f"{kind}{n}" for n in requests for kind in ("sampled-", "")}

    def changed(t: Transcript) -> Transcript:
        return change(t) if t.scene == scene and t.request in names else t

    return replace(made, specialized=with_transcripts(made.specialized, changed))


def altered(**fields: Any) -> Change:
    return lambda t: t.model_copy(update=fields)


def of(compared: LongComparison, name: str) -> Verdict | None:
    return next(check.verdict for check in compared.checks if check.name == name)


def test_sound_arms_pass_and_every_check_says_what_it_rests_on() -> None:
    compared = compare(arms(), ASKED)
    assert compared.verdict is Verdict.PASS, [finding.line for finding in compared.findings]
    assert {"attestation", "finite", "tokens", "forced", "signals", "lengths", "growth", "canaries"} <= {
        c.name for c in compared.checks
    }
    assert all(check.detail for check in compared.checks)
    assert found(arms(), ASKED).tokens == {}
    assert "PASS: long outputs of specialized against default" in summary.render(compared)


ZEROS = altered(tokens=(*range(100, 300), *[0] * 40), own=((0, 240),), logprobs=(-0.5,) * 240, top=())


@pytest.mark.parametrize(
    ("change", "sign", "position"),
    [
        (lambda t: output(**(t.model_dump() | {"tokens": (*t.tokens[:300], *[0] * 40), "own": ((0, 340),)})), "zero run", 300),
        (lambda t: output(**(t.model_dump() | {"tokens": (*t.tokens[:300], *[4] * 40), "own": ((0, 340),)})), "padding run", 300),
        (altered(texts=(ANSWER + "<|sep|>",)), "leaked control token", None),
    ],
)
def test_one_output_is_enough_for_what_is_granted_nothing(change: Change, sign: str, position: int | None) -> None:
    def whole(t: Transcript) -> Transcript:
        t = change(t)
        return t.model_copy(update={"logprobs": (-0.5,) * len(t.tokens), "top": t.top[:1] * len(t.tokens)})

    compared = compare(faulty(arms(), whole), ASKED)
    assert of(compared, "signals") is Verdict.FAIL
    findings = [f for f in compared.findings if f.text.startswith(sign)]
    assert [(f.verdict, f.request) for f in findings] == [(Verdict.FAIL, "sampled-0")]
    assert position is None or findings[0].position == position
    assert found(faulty(arms(), whole), ASKED).tokens[sign] == findings[0].position + 1


def test_what_the_default_path_shows_too_is_held_to_the_margin() -> None:
    leak = {"texts": (ANSWER + "<|sep|>",)}
    sound, leaking = output(), output(**leak)
    (of_both,) = [
        r for r in rates.rates([pair(leaking, leaking), *[pair(sound)] * 15], ASKED) if r.name == "leaked control token"
    ]
    assert (of_both.verdict, of_both.default, of_both.specialized) == (Verdict.PASS, 1, 1)
    assert of_both.margin == ASKED.margin
    # It may grow by no more than the margin of 0.35.
    rows = [pair(leaking, leaking), *[pair(leaking)] * 15]
    (grown,) = [r for r in rates.rates(rows, ASKED) if r.name == "leaked control token"]
    assert grown.verdict is Verdict.FAIL
    (finding,) = rates.findings(grown)
    assert "0.35 granted" in finding.text


@pytest.mark.parametrize(
    ("grown", "verdict"), [(0, Verdict.PASS), (1, Verdict.PASS), (5, Verdict.INCONCLUSIVE), (14, Verdict.FAIL)]
)
def test_rates_are_judged_for_non_inferiority(grown: int, verdict: Verdict) -> None:
    looping = output(tokens=(*range(10, 60), *[7, 8] * 40))
    rows = [pair(looping)] * grown + [pair(output())] * (16 - grown)
    (rate,) = [r for r in rates.rates(rows, ASKED) if r.name == "loop"]
    assert rate.verdict is verdict
    assert (rate.specialized, rate.default) == (grown, 0)
    assert rate.p == pytest.approx(0.5**grown)


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.0, Verdict.PASS), (1.5, Verdict.FAIL), (0.5, Verdict.FAIL), (1.15, Verdict.INCONCLUSIVE)]
)
def test_lengths_are_judged_either_way(factor: float, verdict: Verdict) -> None:
    rows = []
    for n in range(16):
        base = 300 + 10 * (n % 5)
        rows.append(pair(output(tokens=tuple(range(round(base * factor)))), output(tokens=tuple(range(base)))))
    compared = lengths.compare(rows, ASKED.length)
    assert compared.verdict is verdict
    assert compared.ratio == pytest.approx(factor, rel=0.01)


@pytest.mark.parametrize(
    ("change", "position"),
    [
        (lambda t: t.model_copy(update={"tokens": (*t.tokens[:7], 99, *t.tokens[8:])}), 7),
        (lambda t: t.model_copy(update={"logprobs": (*t.logprobs[:9], -0.5000001, *t.logprobs[10:])}), 9),
        (lambda t: t.model_copy(update={"tokens": t.tokens[:20], "logprobs": t.logprobs[:20], "top": t.top[:20]}), 20),
    ],
)
def test_a_canary_that_sings_otherwise_is_found(change: Change, position: int) -> None:
    made = faulty(arms(), change, scene=ASKED.after)
    compared = compare(made, ASKED)
    assert of(compared, "canaries") is Verdict.FAIL
    (finding,) = [f for check in compared.checks if check.name == "canaries" for f in check.findings]
    assert (finding.scene, finding.request, finding.position) == (ASKED.after, "0", position)


def test_canaries_that_the_default_path_changes_prove_nothing() -> None:
    made = arms()
    change = altered(logprobs=(-0.25,) * 50)
    default = with_transcripts(made.default, lambda t: change(t) if t.scene == ASKED.after else t)
    assert of(compare(replace(made, default=default), ASKED), "canaries") is Verdict.INVALID


def test_canaries_that_nobody_answers_rightly_show_little() -> None:
    made, wrong = arms(), altered(texts=(ANSWER.replace("4", "5"),))
    default = with_transcripts(made.default, lambda t: wrong(t) if t.scene in (ASKED.fresh, ASKED.after) else t)
    assert of(compare(replace(made, default=default), ASKED), "canaries") is Verdict.INVALID


def test_an_engine_that_claims_nothing_has_to_answer_as_rightly() -> None:
    asked = ASKED.model_copy(update={"reproducible": False})
    otherwise = faulty(arms(), altered(logprobs=(-0.25,) * 50), scene=ASKED.after)
    wrong = faulty(arms(), altered(texts=(ANSWER.replace("4", "5"),)), scene=ASKED.after)
    assert of(compare(otherwise, asked), "canaries") is Verdict.PASS
    assert of(compare(wrong, asked), "canaries") is Verdict.FAIL


def test_no_proof_of_the_path_is_invalid() -> None:
    made = arms()
    assert compare(replace(made, specialized=replace(made.specialized, steps=None)), ASKED).verdict is Verdict.INVALID


def test_arms_of_other_engines_are_not_compared() -> None:
    made = arms()
    other = replace(made.specialized, manifest=made.specialized.manifest.model_copy(update={"model": "another"}))
    compared = compare(replace(made, specialized=other), ASKED)
    assert (compared.verdict, compared.rates) == (Verdict.INVALID, ())


def test_samples_of_the_specialized_arm_have_the_default_arms_seeds() -> None:
    assert of(compare(faulty(arms(), altered(seed=77)), ASKED), "complete") is Verdict.INVALID


def test_a_nan_is_placed() -> None:
    def change(t: Transcript) -> Transcript:
        return t.model_copy(update={"logprobs": (*t.logprobs[:123], float("nan"), *t.logprobs[124:])})

    made = faulty(arms(), change)
    assert found(made, ASKED).tokens == {"finite": 124, "non-finite logprob": 124}
    assert NAMES[2] == "specialized"
