"""Arms of different engines are not compared, and nothing that is missing is passed over."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.equivalence.toy import Arms
from validate.equivalence.compare.comparability import complete, same_engine
from validate.equivalence.compare.comparison import compare
from validate.records.arm import Transcript
from validate.records.arm_folder import Arm
from validate.records.model import Machine
from validate.verdict import Verdict

OTHER = {
    "engine": {"block_size": 16, "dtype": "bfloat16", "max_num_seqs": 8},
    "model": "another",
    "plan": "another",
    "scenes": ("alone",),
    "versions": {"vllm": "0.33.1"},
    "source": "another",
    "environment": {"VLLM_BATCH_INVARIANT": "1"},
    "machine": Machine(system="toy", cpu="toy", cores=1, memory_gib=1.0, gpus=("H200",)),
    "served": ("http://localhost",),
    "minimum": 0.5,
    "stand_in": False,
    "planned": 79,
}


def edited(arm: Arm, edit: Callable[[Transcript], Transcript | None], key: str = "alone/greedy-1") -> Arm:
    """The arm with one transcript changed or left out."""
    answers = [edit(t) if t.key == key else t for t in arm.transcripts]
    return replace(arm, transcripts=tuple(t for t in answers if t is not None))


@pytest.mark.parametrize("field", OTHER)
@pytest.mark.parametrize("which", ["again", "specialized"])
def test_any_other_difference_is_invalid(sound: Arms, which: str, field: str) -> None:
    arm = getattr(sound, which)
    other = replace(arm, manifest=arm.manifest.model_copy(update={field: OTHER[field]}))
    found = same_engine(replace(sound, **{which: other}))
    assert found.verdict is Verdict.INVALID
    assert [finding.text.split(":")[0].split(".")[0] for finding in found.findings] == [field]


def test_arms_of_other_engines_are_not_judged_further(sound: Arms) -> None:
    other = replace(sound.again, manifest=sound.again.manifest.model_copy(update={"model": "another"}))
    comparison = compare(replace(sound, again=other))
    assert (comparison.verdict, comparison.exit_code, len(comparison.checks)) == (Verdict.INVALID, 3, 1)


@pytest.mark.parametrize("which", ["default", "again", "specialized"])
def test_an_arm_of_the_wrong_backend(sound: Arms, which: str) -> None:
    arm = getattr(sound, which)
    backend = "auto" if which == "specialized" else "latency_specialized"
    other = replace(arm, manifest=arm.manifest.model_copy(update={"decode_backend": backend}))
    assert same_engine(replace(sound, **{which: other})).findings[0].text.startswith("decode_backend")


def test_an_arm_is_not_its_own_noise(sound: Arms) -> None:
    assert "one folder" in same_engine(replace(sound, again=sound.default)).findings[0].text


def test_names_times_and_planted_faults_may_differ(sound: Arms) -> None:
    changes = {"name": "mine", "start": "2027", "end": "2028", "planted": "stale"}
    other = replace(sound.specialized, manifest=sound.specialized.manifest.model_copy(update=changes))
    arms = replace(sound, specialized=other)
    assert same_engine(arms).verdict is Verdict.PASS
    assert [arm.planted for arm in compare(arms).planted] == ["stale"]


def test_a_missing_request_is_named(sound: Arms) -> None:
    found = complete(replace(sound, specialized=edited(sound.specialized, lambda t: None)))
    assert found.verdict is Verdict.INVALID
    assert any("alone/greedy-1: missing in specialized" in finding.line for finding in found.findings)
    assert any("79 requests recorded, 80 planned" in finding.line for finding in found.findings)


@pytest.mark.parametrize("which", ["default", "again", "specialized"])
@pytest.mark.parametrize(
    ("change", "key", "says"),
    [
        ({"error": "timeout"}, "alone/greedy-1", "error in"),
        ({"prompt": (1,)}, "alone/greedy-1", "the prompt is not the same"),
        ({"seed": 7}, "alone/greedy-1", "the seed is not the same"),
        ({"logprobs": ()}, "alone/greedy-1", "0 logprobs"),
        ({"request": "surprise"}, "alone/greedy-1", "alone/surprise: missing in"),
        ({"tokens": (0,) * 48}, "alone/forced-1", "forced tokens are not the same"),
    ],
)
def test_what_was_not_answered_alike_is_invalid(sound: Arms, which: str, change: dict[str, object], key: str, says: str) -> None:
    arm = edited(getattr(sound, which), lambda t: t.model_copy(update=change), key)
    found = complete(replace(sound, **{which: arm}))
    assert found.verdict is Verdict.INVALID
    assert any(says in finding.line for finding in found.findings)


def test_a_recording_without_an_end(sound: Arms) -> None:
    other = replace(sound.again, manifest=sound.again.manifest.model_copy(update={"end": None}))
    assert "no end" in complete(replace(sound, again=other)).findings[0].text


def test_sampled_requests_are_listed_as_not_run(sound: Arms) -> None:
    def sampled(arm: Arm) -> Arm:
        return replace(arm, transcripts=tuple(t.model_copy(update={"kind": "sampled"}) for t in arm.transcripts))

    comparison = compare(Arms(*map(sampled, sound)))
    assert comparison.verdict is Verdict.INVALID
    assert {check.name: check.verdict for check in comparison.checks}["sampled"] is None
    assert comparison.findings[-1].text == "no request could be compared"
