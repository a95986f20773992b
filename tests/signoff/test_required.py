"""A release may be signed with everything there, and is refused, by name, for each single thing that is not."""

from typing import Any

import pytest

from tests.signoff.made import CPU, GB300, TASKS, changed, engine, evidence, finding, whole
from validate.signoff.evidence import Source
from validate.signoff.reading import engines, evals, races
from validate.signoff.required import DEPLOYED, PARTS, refusals, verdict
from validate.verdict import Verdict

OTHER = GB300.model_copy(update={"image": "sha256:" + "2" * 64})
OLDER = {"start": "2025-12-31T00:00:00Z"}
UNVERIFIED = (Source(name="default", digest="", verified=False),)


def test_the_whole_may_be_signed() -> None:
    assert refusals(whole()) == []
    assert verdict([]) is Verdict.PASS


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_a_part_that_is_missing_is_named(part: Any) -> None:
    found = refusals([one for one in whole() if one.part != part.name])
    assert [(one.kind, one.layer, one.part) for one in found if one.why == "there is no record of it"] == [
        ("missing", part.layer, part.name)
    ]
    assert verdict(found) is Verdict.INVALID


@pytest.mark.parametrize("part", [part for part in PARTS if part.on_gb300], ids=lambda part: part.name)
def test_what_was_emulated_signs_nothing(part: Any) -> None:
    found = refusals(changed(part.name, runs_on="emulated", machine=CPU))
    assert ("emulated", part.name) in [(one.kind, one.part) for one in found]
    assert verdict(found) is Verdict.INVALID


@pytest.mark.parametrize(
    ("part", "changes", "kind", "says", "wanted"),
    [
        (engines.WHOLE, {"attested": False}, "unattested", "not shown to have run on the specialized path", Verdict.INVALID),
        (engines.WHOLE, {"arms": UNVERIFIED}, "unverified", "its arm default is not among those given", Verdict.INVALID),
        (
            engines.WHOLE,
            {"deployment": {"tensor_parallel_size": 16}},
            "another deployment",
            "tensor_parallel_size",
            Verdict.INVALID,
        ),
        (evals.PART, {"weights": "0" * 16}, "another deployment", "weights", Verdict.INVALID),
        (engines.LONG, {"planted": "nan-late"}, "planted", "the fault nan-late was planted", Verdict.INVALID),
        ("numerics", OLDER | {"suite": "d" * 40}, "stale", f"by commit {'d' * 40} of the suite", Verdict.INVALID),
        ("numerics", OLDER | {"suite": None}, "stale", "commit unknown", Verdict.INVALID),
        ("numerics", {"dirty": True}, "stale", "were not those of a commit", Verdict.INVALID),
        ("numerics", OLDER | {"machine": OTHER}, "stale", "it ran in image sha256:2222", Verdict.INVALID),
        (evals.PART, {"machine": GB300.model_copy(update={"image": None})}, "stale", "K3_PARITY_IMAGE", Verdict.INVALID),
        (
            evals.PART,
            {"data": {k: v for k, v in TASKS.items() if k != "aime25"}},
            "missing",
            "aime25 was not asked",
            Verdict.INVALID,
        ),
        (
            races.MODELS,
            {"verdict": Verdict.INCONCLUSIVE, "checks": (finding(Verdict.INCONCLUSIVE, "the limit came first"),)},
            "inconclusive",
            "the limit came first",
            Verdict.INCONCLUSIVE,
        ),
        (
            evals.PART,
            {"verdict": Verdict.FAIL, "checks": (finding(Verdict.FAIL, "gsm8k: the loss is beyond the margin"),)},
            "failed",
            "gsm8k: the loss is beyond the margin",
            Verdict.FAIL,
        ),
        # A verdict that its own checks do not bear out is not believed.
        (engines.WHOLE, {"checks": (finding(Verdict.FAIL, "row 3 is stale"),)}, "failed", "row 3 is stale", Verdict.FAIL),
        ("numerics", {"lacks": ("-k kda: 9 cases",)}, "partial", "it is not the whole: -k kda: 9 cases", Verdict.INVALID),
        (
            races.MODELS,
            {"lacks": ("without 90 searches",)},
            "partial",
            "whole: without 90 searches",
            Verdict.INVALID,
        ),
        (evals.PART, {"lacks": ("gsm8k: 20 of 1319 items",)}, "partial", "gsm8k: 20 of 1319 items", Verdict.INVALID),
        ("numerics", {"deployment": {"tensor_parallel_size": 16}}, "another deployment", "is 16", Verdict.INVALID),
        ("numerics", OLDER | {"vllm": "0.32.0"}, "stale", "it ran vLLM 0.32.0, the newest record 0.33.0", Verdict.INVALID),
        ("numerics", {"machine": GB300.model_copy(update={"image": "vllm:latest"})}, "stale", "is no digest", Verdict.INVALID),
        (races.MODELS, {"vllm": "0.32.0, not run"}, "stale", "its models are of vLLM 0.32.0", Verdict.INVALID),
        ("numerics", {"verdict": Verdict.INVALID, "end": None, "checks": ()}, "invalid", "the run did not end", Verdict.INVALID),
    ],
)
def test_one_thing_that_is_wrong_is_named(part: str, changes: dict[str, Any], kind: str, says: str, wanted: Verdict) -> None:
    found = refusals(changed(part, **changes))
    assert any(
        one.kind == kind and one.part in (part, engines.WHOLE, engines.LONG, evals.PART) and says in one.why for one in found
    )
    assert {one.kind for one in found} == {kind}
    assert verdict(found) is wanted


def test_a_proven_defect_comes_first_and_outranks_all() -> None:
    found = refusals([evidence(verdict=Verdict.FAIL, checks=(finding(Verdict.FAIL, "row 3 of kda"),))])
    assert found[0].kind == "failed"
    assert "row 3 of kda" in found[0].why
    assert verdict(found) is Verdict.FAIL


def test_the_image_that_is_asked_for_is_the_one_that_counts() -> None:
    assert refusals(whole(), GB300.image) == []
    assert {one.kind for one in refusals(whole(), "sha256:next")} == {"stale"}


def test_weights_that_are_known_by_name_alone_may_be_any() -> None:
    named = [one.model_copy(update={"weights": "name org/K3"}) if one.weights else one for one in whole()]
    found = refusals(named)
    assert [(one.kind, one.part) for one in found] == [("unverified", one.part) for one in whole() if one.weights]
    assert found[0].why == "which weights it served is not known, only their name org/K3"


def test_one_image_has_many_names() -> None:
    named = GB300.model_copy(update={"image": f"registry.example/vllm@{GB300.image}"})
    assert refusals(changed(engines.WHOLE, machine=named)) == []
    assert refusals(whole(), named.image) == []


def test_a_part_of_a_part_does_no_harm_beside_the_whole() -> None:
    assert refusals([*whole(), evidence(lacks=("-k kda: 9 cases",), deployment={"tensor_parallel_size": 16})]) == []


def test_a_benchmark_that_was_asked_in_part_alone_does_not_count() -> None:
    """Before a merge GSM8K is asked once, with a larger margin; the other benchmarks of the whole suite do not make up for it."""
    less = {task: digest for task, digest in TASKS.items() if task != "gsm8k"}
    merge = engine(evals.PART, "evals", data={"gsm8k": "c3"}, lacks=("suite pre-merge",))
    assert [one.kind for one in refusals([*changed(evals.PART, data=less), merge])] == ["partial"]


def test_the_version_of_vllm_is_the_same_under_both_of_its_names() -> None:
    assert refusals(changed(engines.WHOLE, vllm="vllm 0.33.0+cu130")) == []


DRAFTS = {"tensor_parallel_size": 8, "drafts": "dspark 7"}
WITH_DRAFTS = [one.model_copy(update={"deployment": DRAFTS}) for one in whole() if one.part in DEPLOYED]


def test_a_deployment_with_drafts_is_signed_beside_the_same_one_without() -> None:
    assert refusals([*whole(), *WITH_DRAFTS]) == []
    without_benchmarks = [one for one in whole() if one.part != evals.PART]
    assert refusals([*without_benchmarks, *WITH_DRAFTS]) == []


@pytest.mark.parametrize("part", DEPLOYED)
def test_each_part_of_a_deployment_with_drafts_is_asked_for(part: str) -> None:
    found = refusals([*whole(), *(one for one in WITH_DRAFTS if one.part != part)])
    assert [(one.kind, one.part, one.why) for one in found] == [
        ("missing", part, "there is no record of it with the drafts dspark 7")
    ]


def test_drafts_alone_show_nothing_of_dictated_tokens() -> None:
    others = [one for one in whole() if one.part not in DEPLOYED]
    found = refusals([*others, *WITH_DRAFTS])
    assert {(one.kind, one.part, one.why) for one in found} == {
        ("missing", part, "there is no record of it without drafts") for part in (engines.WHOLE, engines.LONG, engines.COMPANY)
    }


def test_a_part_of_the_draft_records_does_not_count_for_those_without() -> None:
    """As a record with drafts, whole engines lack what the ones without have: the tokens of the default path, given."""
    less = [one.model_copy(update={"lacks": ("2 scenes",)}) if one.part == engines.LONG else one for one in WITH_DRAFTS]
    assert [(one.kind, one.part) for one in refusals([*whole(), *less])] == [("partial", engines.LONG)]


@pytest.mark.parametrize("changes", [{"lacks": ("arm set mine",)}, {"planted": "logits-scaled"}])
def test_a_part_with_other_drafts_asks_for_nothing(changes: dict[str, Any]) -> None:
    part = engine(engines.WHOLE, "equivalence", deployment=DRAFTS | {"drafts": "dspark 3", "max_num_seqs": 9}, **changes)
    assert [one.kind for one in refusals([part, *whole()])] == (["planted"] if "planted" in changes else [])


def test_a_missing_part_with_drafts_is_not_told_as_emulated() -> None:
    emulated = engine(engines.LONG, "equivalence", runs_on="emulated", machine=CPU)
    found = refusals([*whole(), *(one for one in WITH_DRAFTS if one.part != engines.LONG), emulated])
    assert [one.why for one in found] == ["there is no record of it on GB300 with the drafts dspark 7"]


def test_emulated_drafts_ask_for_nothing() -> None:
    emulated = [one.model_copy(update={"runs_on": "emulated", "machine": CPU}) for one in WITH_DRAFTS]
    assert refusals([*whole(), *emulated]) == []
