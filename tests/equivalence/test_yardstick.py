"""The float32 arm: where batches change nothing, the default path's own error says what the specialized one may show."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.equivalence.faults import FAULTS
from tests.equivalence.toy import Arms, Plan, quiet_arms, steps
from tests.equivalence.toy import arm as toy_arm
from validate.equivalence.compare.comparison import Comparison, compare
from validate.records.arm_folder import Arm
from validate.verdict import Verdict

PLAN = Plan(requests=6, tokens=32)


def size(comparison: Comparison) -> tuple[float, float, float]:
    assert comparison.forced is not None
    found = comparison.forced.statistics[0]
    assert (found.name, found.group) == ("size", "all")
    return found.specialized, found.noise, found.allowed


@pytest.mark.parametrize("seed", range(5))
def test_a_path_with_the_default_path_s_error_passes(seed: int) -> None:
    arms = quiet_arms(1.0, plan=replace(PLAN, seed=seed))
    comparison = compare(arms)
    assert (comparison.verdict, comparison.noise) == (Verdict.PASS, "float32")
    specialized, noise, allowed = size(comparison)
    assert noise == pytest.approx(0.05, rel=0.2)
    assert specialized == pytest.approx(2**0.5 * noise, rel=0.2)
    assert allowed == pytest.approx(5**0.5 * noise)
    assert compare(replace(arms, float32=None)).verdict is not Verdict.PASS  # the dtype's rounding alone allows less


def test_more_than_twice_the_default_path_s_error_does_not() -> None:
    assert compare(quiet_arms(2.0, plan=PLAN)).verdict is Verdict.INCONCLUSIVE  # as far off as is allowed
    comparison = compare(quiet_arms(4.0, plan=PLAN))
    assert comparison.verdict is Verdict.FAIL
    assert any("float32 0.0" in finding.text for finding in comparison.findings)


@pytest.mark.parametrize("name", ["stale_after_preemption", "grows", "fallback_skips_write", "temperature", "shifted"])
def test_faults_are_found(name: str) -> None:
    assert compare(quiet_arms(1.0, fault=FAULTS[name])).verdict is Verdict.FAIL


def test_a_tie_is_one_of_the_default_path_s_own_error() -> None:
    arms = quiet_arms(1.0, plan=PLAN)
    assert compare(arms).tie > 4 * compare(replace(arms, default=arms.float32, again=arms.float32, float32=None)).tie


def test_where_nothing_is_forced_greedy_requests_say_how_far_off_the_default_path_is() -> None:
    """As with drafts: vLLM forces no tokens there."""
    forced = quiet_arms(1.0, plan=PLAN)
    default, again, specialized = (greedy(arm) for arm in forced)
    float32 = replace(greedy(toy_arm(PLAN, "float32", 1e-7)), manifest=forced.float32.manifest)
    arms = Arms(default, again, specialized, float32)
    with_float32, without = compare(arms), compare(replace(arms, float32=None))
    assert with_float32.noise == "float32"
    assert with_float32.tie > 2 * without.tie
    short = replace(arms, float32=lacking(float32))
    assert any("missing in float32" in finding.text for finding in compare(short).findings)


def greedy(arm: Arm) -> Arm:
    transcripts = tuple(t for t in arm.transcripts if t.kind == "greedy")
    return changed(replace(arm, transcripts=transcripts), planned=len(transcripts))


def changed(arm: Arm, **fields: object) -> Arm:
    return replace(arm, manifest=arm.manifest.model_copy(update=fields))


def lacking(arm: Arm) -> Arm:
    return replace(arm, transcripts=arm.transcripts[1:])


def forced_otherwise(arm: Arm) -> Arm:
    first, *others = arm.transcripts
    return replace(arm, transcripts=(first.model_copy(update={"tokens": (*first.tokens[:-1], 1)}), *others))


def no_number(arm: Arm) -> Arm:
    first, *others = arm.transcripts
    return replace(arm, transcripts=(first.model_copy(update={"logprobs": (float("nan"), *first.logprobs[1:])}), *others))


def asked_otherwise(arm: Arm) -> Arm:
    first, *others = arm.transcripts
    return replace(arm, transcripts=(first.model_copy(update={"prompt": (*first.prompt, 1)}), *others))


def cut_off(arm: Arm) -> Arm:
    first, *others = arm.transcripts
    return replace(arm, transcripts=(first.model_copy(update={"top": first.top[:-1]}), *others))


def no_number_of_another_token(arm: Arm) -> Arm:
    first, *others = arm.transcripts
    best = first.top[0].model_copy(update={"logprobs": (*first.top[0].logprobs[:-1], float("nan"))})
    return replace(arm, transcripts=(first.model_copy(update={"top": (best, *first.top[1:])}), *others))


def of_the_specialized_path(arm: Arm) -> Arm:
    return replace(arm, steps=steps(PLAN, specialized=True))


BAD = [
    ("missing in float32", lacking),
    ("float32 was asked something else, or was not forced to the end", forced_otherwise),
    ("float32 was asked something else", asked_otherwise),
    ("float32: 32 tokens, 32 logprobs, 31 best tokens", cut_off),
    ("is no measure of noise", no_number),
    ("is no measure of noise", no_number_of_another_token),
    ("float32: 97 steps ran specialized", of_the_specialized_path),
    ("float32: the recording has no end", lambda arm: changed(arm, end=None)),
    ("rounds_to: float32 has bfloat16, not float32", lambda arm: changed(arm, rounds_to="bfloat16")),
    ("model: default has 0000000000000000, float32 has another", lambda arm: changed(arm, model="another")),
    ("environment.X: default has None, float32 has 1", lambda arm: changed(arm, environment={"X": "1"})),
    (
        "decode_backend: default has auto, float32 has latency_specialized",
        lambda arm: changed(arm, decode_backend="latency_specialized"),
    ),
]


@pytest.mark.parametrize(("said", "change"), BAD)
def test_a_float32_arm_of_something_else_is_invalid(said: str, change: Callable[[Arm], Arm]) -> None:
    arms = quiet_arms(1.0, plan=PLAN)
    assert arms.float32 is not None
    comparison = compare(replace(arms, float32=change(arms.float32)))
    assert Verdict.INVALID in {check.verdict for check in comparison.checks}
    assert any(said in finding.text for finding in comparison.findings), comparison.findings


def test_all_arms_are_named() -> None:
    arms = quiet_arms(1.0, plan=PLAN)
    assert [arm.name for arm in compare(arms).arms] == ["default", "default-again", "specialized", "float32"]
