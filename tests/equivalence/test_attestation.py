"""Without proof that steps ran specialized there is no verdict; NaN and ranks that disagree are defects."""

import math
from dataclasses import replace
from typing import Any

import pytest

from tests.equivalence.test_comparability import edited
from tests.equivalence.toy import Arms, Plan, steps
from validate.equivalence.compare.attestation import attested
from validate.equivalence.compare.comparison import compare
from validate.equivalence.compare.finite import finite
from validate.records.arm import StepCount, Steps
from validate.records.arm_folder import Arm
from validate.verdict import Verdict


def counted(specialized: int, default: int) -> Steps:
    kinds = [("specialized", "", specialized), ("default", "partial drafts", default)]
    rows = [StepCount(path=path, kind="verify", rows=8, q=8, reason=reason, count=count) for path, reason, count in kinds]
    prefill = StepCount(path="default", kind="prefill", rows=512, q=1, reason="prompt rows", count=1000)
    return Steps(source="toy", by_scene={"alone": (*rows, prefill), "eight": (prefill,)})


def test_the_share_is_of_decode_and_verify_steps_of_decode_only_scenes(sound: Arms) -> None:
    found = attested(replace(sound, specialized=replace(sound.specialized, steps=counted(95, 5))))
    assert found.verdict is Verdict.PASS
    assert "95 of 100" in found.detail


@pytest.mark.parametrize("account", [counted(94, 6), counted(0, 100), steps(Plan(), specialized=False), None])
def test_too_few_specialized_steps_are_invalid_however_well_outputs_agree(sound: Arms, account: Steps | None) -> None:
    comparison = compare(replace(sound, specialized=replace(sound.specialized, steps=account)))
    assert (comparison.verdict, comparison.exit_code) == (Verdict.INVALID, 3)


def test_a_decode_only_scene_without_steps(sound: Arms) -> None:
    account = Steps(source="toy", by_scene={"eight": ()})
    found = attested(replace(sound, specialized=replace(sound.specialized, steps=account)))
    assert [finding.scene for finding in found.findings] == ["alone"]


def test_no_scene_declared_decode_only(sound: Arms) -> None:
    manifest = sound.specialized.manifest.model_copy(update={"decode_only": ()})
    found = attested(replace(sound, specialized=replace(sound.specialized, manifest=manifest)))
    assert "no scene is declared decode-only" in found.findings[0].text


@pytest.mark.parametrize("which", ["default", "again"])
@pytest.mark.parametrize("account", [counted(1, 99), None])
def test_a_default_arm_with_specialized_steps_or_no_account(sound: Arms, which: str, account: Steps | None) -> None:
    found = attested(replace(sound, **{which: replace(getattr(sound, which), steps=account)}))
    assert found.verdict is Verdict.INVALID


@pytest.mark.parametrize("change", [{"corrupted": 1}, {"ranks_agree": False}])
def test_what_the_engine_itself_calls_wrong_is_a_failure(sound: Arms, change: dict[str, Any]) -> None:
    account = counted(100, 0).model_copy(update=change)
    assert attested(replace(sound, specialized=replace(sound.specialized, steps=account))).verdict is Verdict.FAIL


def test_a_count_of_nans_that_is_missing_is_no_proof(sound: Arms) -> None:
    def counting(arm: Arm, environment: dict[str, str]) -> Arm:
        return replace(arm, manifest=arm.manifest.model_copy(update={"environment": environment}), steps=uncounted)

    assert sound.again.steps is not None
    uncounted = sound.again.steps.model_copy(update={"corrupted": None})
    asked = attested(replace(sound, again=counting(sound.again, {"VLLM_COMPUTE_NANS_IN_LOGITS": "1"})))
    assert asked.verdict is Verdict.INVALID
    assert "count of requests with NaN logits is missing" in asked.findings[0].text
    assert attested(replace(sound, again=counting(sound.again, {}))).verdict is Verdict.PASS


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_logprob_that_is_no_number_is_named_and_hides_nothing_else(sound: Arms, value: float) -> None:
    arm = edited(
        sound.specialized,
        lambda t: t.model_copy(update={"logprobs": (*t.logprobs[:7], value, *t.logprobs[8:])}),
        "alone/forced-2",
    )
    comparison = compare(replace(sound, specialized=arm))
    assert comparison.verdict is Verdict.FAIL
    (finding,) = finite(replace(sound, specialized=arm)).findings
    assert (finding.scene, finding.request, finding.position) == ("alone", "forced-2", 7)
    assert comparison.told(finding).endswith("rerun: nox -s equivalence -- toy -k alone")
    assert comparison.forced is not None
    assert comparison.forced.requests_count == 39
