"""Which check finds a fault first, and after how many decoded tokens."""

import math
from dataclasses import replace

import pytest

from tests.equivalence.faults import FAULTS
from tests.equivalence.test_comparability import edited
from tests.equivalence.toy import Arms, Plan, arms, steps
from validate.equivalence.compare.common_practice import finds
from validate.equivalence.compare.detected import Detection, detected_by
from validate.records.arm import Transcript
from validate.records.arm_folder import Arm

PLAN = Plan(requests=6, tokens=32, scenes=("alone", "preempted"))


def detect(sound: Arms, faulty: Arm) -> Detection | None:
    return detected_by(sound.default, sound.again, sound.specialized, faulty)


def test_a_sound_arm_is_not_detected(sound: Arms) -> None:
    assert detect(sound, sound.specialized) is None


def test_a_sound_arm_that_is_detected_makes_detection_worthless(sound: Arms) -> None:
    bad = replace(sound.specialized, steps=None)
    with pytest.raises(ValueError, match="the sound arm specialized is found by attestation"):
        detected_by(sound.default, sound.again, bad, sound.specialized)


def test_attestation_needs_no_token(sound: Arms) -> None:
    found = detect(sound, replace(sound.specialized, steps=steps(Plan(), specialized=False)))
    assert found == Detection("attestation", {"attestation": 0}, None)


def test_a_nan(sound: Arms) -> None:
    """In the second request recorded, at its eighth token: 48 decoded before it."""
    key = sound.specialized.transcripts[1].key
    found = detect(
        sound,
        edited(sound.specialized, lambda t: t.model_copy(update={"logprobs": (*t.logprobs[:7], math.nan, *t.logprobs[8:])}), key),
    )
    assert found is not None
    assert (found.first, found.tokens) == ("finite", {"finite": 56})


def test_an_end_that_differs(sound: Arms) -> None:
    found = detect(sound, edited(sound.specialized, lambda t: t.model_copy(update={"finish": "abort"}), "alone/greedy-2"))
    if sound.default.transcripts[4].tokens == sound.specialized.transcripts[4].tokens:
        assert found is not None
        assert (found.first, found.tokens["finish"]) == ("finish", 5 * 48)


def test_a_wrong_token_is_found_where_it_is(sound: Arms) -> None:
    def wrong(t: Transcript) -> Transcript:
        return t.model_copy(update={"tokens": ((t.tokens[0] + 1) % 96, *t.tokens[1:])})

    found = detect(sound, edited(sound.specialized, wrong, "eight/greedy-0"))
    assert found is not None
    assert found.tokens == {"tokens": 16 * 48 + 1}


def test_forced_decoding_needs_the_tokens_that_it_needs() -> None:
    sound = arms(PLAN)
    found = detect(sound, arms(PLAN, fault=FAULTS["stale_after_preemption"]).specialized)
    assert found is not None
    at = found.tokens["forced"]
    # 12 requests of 32 tokens before the scene; the first forced one of it is the second there, off from position 20.
    assert (12 + 1) * 32 + 20 < at <= (12 + 4) * 32
    assert found.first in ("forced", "tokens")


def test_what_the_common_comparison_finds(sound: Arms) -> None:
    assert all(finds(pair) is None for pair in sound.pairs())
    wrong = [pair for pair in arms(fault=FAULTS["prefix_of_wrong_block"]).pairs() if finds(pair) is not None]
    assert {pair.default.scene for pair in wrong} == {"prefix"}
