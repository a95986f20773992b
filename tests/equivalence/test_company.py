"""The same texts in changing company: what is asked, and what an arm that hears its neighbours looks like."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.equivalence.doubles import arm_set
from tests.equivalence.test_scenes import FACTS
from tests.equivalence.toy import Arms
from validate.equivalence.compare.allowance import Yardstick
from validate.equivalence.compare.company import company
from validate.equivalence.compare.swings import swings
from validate.equivalence.compare.tokens import Noise
from validate.equivalence.prompts import seeded
from validate.equivalence.scenes import Scene, build
from validate.errors import InputError
from validate.records.arm import Top, Transcript
from validate.verdict import Verdict

YARDSTICK = Yardstick("A/A", 4.0, 0.01)
NOISE = Noise(swings([]), swings([]), YARDSTICK, grows=False)
TIES = Noise(swings([]), swings([]), Yardstick("A/A", 4.0, 1.0), grows=False)  # a margin of 1 nat is one
Edit = Callable[[Transcript], Transcript]
Judged = tuple[Verdict | None, list[str]]


def scenes(**fields: object) -> list[Scene]:
    asked = {"kind": "company", "name": "s", "watched": 2, "sizes": [2, 5], "rounds": 3, "length": 20} | fields
    return build(arm_set(asked).scenes, FACTS, seeded(0, (3, 90)))


def transcript(size: int, turn: int, number: int, edit: Edit | None) -> Transcript:
    logprobs = tuple(-0.5 - 0.1 * at for at in range(8))
    top = tuple(Top(ids=(at, at + 1), logprobs=(value, value - 1)) for at, value in enumerate(logprobs))
    scene, request = f"s-{size}-{turn}", f"watched-{number}"
    made = Transcript(
        scene=scene, request=request, kind="forced", prompt=(1,), tokens=tuple(range(8)), logprobs=logprobs, top=top
    )
    return edit(made) if edit else made


def judged(
    sound: Arms, *, claimed: bool, default: Edit | None = None, specialized: Edit | None = None, noise: Noise = NOISE
) -> Judged:
    """Verdict and findings, with an edit in the last round of the last size of an arm."""

    def answers(edit: Edit | None) -> tuple[Transcript, ...]:
        places = [(size, turn, number) for size in (2, 5) for turn in range(3) for number in range(2)]
        return tuple(transcript(*place, edit if place == (5, 2, 1) else None) for place in places)

    manifest = sound.default.manifest.model_copy(update={"reproducible": claimed})
    arms = replace(
        sound,
        default=replace(sound.default, manifest=manifest, transcripts=answers(default)),
        again=replace(sound.again, transcripts=answers(None)),
        specialized=replace(sound.specialized, transcripts=answers(specialized)),
    )
    found = company(arms, YARDSTICK, noise)
    assert found is not None
    return found.verdict, [finding.line for finding in found.findings]


def moves(by: float) -> Edit:
    def edit(made: Transcript) -> Transcript:
        logprobs = (*made.logprobs[:3], made.logprobs[3] + by, *made.logprobs[4:])
        moved = Top(ids=made.top[3].ids, logprobs=(logprobs[3], logprobs[3] - 1))
        return made.model_copy(update={"logprobs": logprobs, "top": (*made.top[:3], moved, *made.top[4:])})

    return edit


def parts(margin: float) -> Edit:
    """Decodes the second best token of position 5, ``margin`` ahead of the other, and something else behind it."""

    def edit(made: Transcript) -> Transcript:
        other = Top(ids=(6, 5), logprobs=(-0.5, -0.5 - margin))
        return made.model_copy(
            update={
                "tokens": (*made.tokens[:5], 6, 70, 71),
                "logprobs": (*made.logprobs[:5], -0.5, -9.0, -9.0),
                "top": (*made.top[:5], other, *made.top[6:]),
            }
        )

    return edit


def test_watched_texts_are_the_same_in_every_round_and_nothing_else_is() -> None:
    made = scenes()
    assert [scene.name for scene in made] == ["s-2-0", "s-2-1", "s-2-2", "s-5-0", "s-5-1", "s-5-2"]
    assert all(scene.forced and scene.decode_only for scene in made)
    texts = [{r.name: r.prompt + r.forced for r in scene.requests} for scene in made]
    assert {(each["watched-0"], each["watched-1"]) for each in texts} == {(texts[0]["watched-0"], texts[0]["watched-1"])}
    others = [text for each in texts for name, text in each.items() if not name.startswith("watched")]
    assert len(set(others)) == len(others) == 9
    places = [[r.name for r in scene.requests].index("watched-0") for scene in made[3:]]
    assert len(set(places)) == 3


def test_where_nothing_can_be_dictated_texts_go_on_greedily() -> None:
    made = scenes(prompt=12)
    assert not any(scene.forced for scene in made)
    assert {(r.kind, len(r.prompt), r.tokens) for scene in made for r in scene.requests} == {("greedy", 12, 8)}
    assert len({r.prompt for scene in made for r in scene.requests if r.name == "watched-0"}) == 1
    drafts = {"max_model_len": 200, "max_num_batched_tokens": 40, "max_num_seqs": 4, "speculative_config": {"method": "dspark"}}
    asked = {"kind": "company", "name": "s", "watched": 2, "sizes": [2], "rounds": 2, "length": 20}
    assert not arm_set(asked | {"prompt": 12}, engine=drafts).forced
    with pytest.raises(ValueError, match="vLLM forces no tokens with speculative decoding"):
        arm_set(asked, engine=drafts)


def test_a_size_without_room_is_refused() -> None:
    with pytest.raises(InputError, match="scene s: 3 watched requests do not fit into a size of 2"):
        scenes(watched=3)


def test_arms_without_such_scenes_have_no_such_check(sound: Arms) -> None:
    assert company(sound, YARDSTICK, NOISE) is None


def test_where_reproducibility_is_claimed_the_last_bit_counts(sound: Arms) -> None:
    assert judged(sound, claimed=True) == (Verdict.PASS, [])
    verdict, lines = judged(sound, claimed=True, specialized=moves(1e-9))
    assert verdict is Verdict.FAIL
    assert len(lines) == 1
    assert lines[0].startswith("FAIL s-5-2/watched-1, position 3: company: not what it was in s-5-0")


def test_a_default_path_that_does_not_keep_the_claim_proves_nothing(sound: Arms) -> None:
    verdict, lines = judged(sound, claimed=True, default=moves(1e-9))
    assert verdict is Verdict.INVALID
    assert "the default path itself" in lines[0]


def test_elsewhere_the_default_paths_own_variation_is_the_measure(sound: Arms) -> None:
    assert judged(sound, claimed=False, specialized=moves(0.02))[0] is Verdict.PASS  # below the floor
    assert judged(sound, claimed=False, default=moves(0.3), specialized=moves(0.9))[0] is Verdict.PASS
    verdict, lines = judged(sound, claimed=False, default=moves(0.3), specialized=moves(1.3))
    assert verdict is Verdict.FAIL
    assert "s-5-2/watched-1, position 3" in lines[0]


@pytest.mark.parametrize("claimed", [True, False])
def test_what_is_no_number_is_no_repeat(sound: Arms, claimed: bool) -> None:
    assert judged(sound, claimed=claimed, specialized=moves(float("nan")))[0] is Verdict.FAIL


def test_another_token_is_a_tie_or_a_defect(sound: Arms) -> None:
    """The default path prefers its token by 1 nat: beyond any noise here, so that only a larger bound makes it a tie."""
    verdict, lines = judged(sound, claimed=False, specialized=parts(0.5))
    assert verdict is Verdict.FAIL
    assert lines == [
        "FAIL s-5-2/watched-1, position 5: company: not what it was in s-5-0: defect: margin 1 beyond the noise 0.04653"
    ]
    assert judged(sound, claimed=False, default=parts(0.5))[0] is Verdict.INVALID
    assert judged(sound, claimed=True, specialized=parts(0.5))[0] is Verdict.FAIL


def test_behind_another_token_nothing_is_compared(sound: Arms) -> None:
    assert judged(sound, claimed=False, specialized=parts(0.0), noise=TIES) == (Verdict.PASS, [])


def test_an_output_that_ends_before_it_did_is_a_defect(sound: Arms) -> None:
    def ends(made: Transcript) -> Transcript:
        return made.model_copy(update={"tokens": made.tokens[:6], "logprobs": made.logprobs[:6], "top": made.top[:6]})

    verdict, lines = judged(sound, claimed=False, specialized=ends)
    assert verdict is Verdict.FAIL
    assert "one ends after 6 tokens" in lines[0]


def test_one_position_in_thousands_is_not_lost_in_an_rms(sound: Arms) -> None:
    """64 positions, of which one is 0.079 nats off: an rms of less than the 0.01 that is allowed."""
    verdict, lines = judged(sound, claimed=False, specialized=moves(0.079))
    assert verdict is Verdict.FAIL
    assert "0.079 nats in one position, 0.0395" in lines[0]
    assert judged(sound, claimed=False, specialized=moves(0.03))[0] is Verdict.PASS
    assert judged(sound, claimed=False, default=moves(0.03), specialized=moves(0.079))[0] is Verdict.PASS  # the default's own


def test_the_runner_up_counts(sound: Arms) -> None:
    def edit(made: Transcript) -> Transcript:
        odd = Top(ids=made.top[3].ids, logprobs=(made.logprobs[3], made.logprobs[3] - 3))
        return made.model_copy(update={"top": (*made.top[:3], odd, *made.top[4:])})

    verdict, lines = judged(sound, claimed=False, specialized=edit)
    assert verdict is Verdict.FAIL
    assert "position 3: company: 1.41 nats in one position" in lines[0]


def everywhere(edit: Edit, arms: Arms) -> Arms:
    """In all repeats, and the first rounds, of the specialized arm."""
    return replace(arms, specialized=replace(arms.specialized, transcripts=tuple(map(edit, arms.specialized.transcripts))))


def test_where_too_little_is_compared_nothing_is_decided(sound: Arms) -> None:
    places = [(size, turn, number) for size in (2, 5) for turn in range(3) for number in range(2)]
    whole = tuple(transcript(*place, None) for place in places)
    arms = replace(
        sound,
        default=replace(sound.default, transcripts=whole),
        again=replace(sound.again, transcripts=whole),
        specialized=replace(sound.specialized, transcripts=whole),
    )

    def early(made: Transcript) -> Transcript:
        if made.scene.endswith("-0"):
            return made
        return made.model_copy(
            update={"tokens": (1, *made.tokens[1:]), "top": (Top(ids=(1, 0), logprobs=(-1.0, -1.0)), *made.top[1:])}
        )

    found = company(everywhere(early, arms), YARDSTICK, TIES)
    assert found is not None
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.findings[0].text == "company: 0 positions compared, and 64 of the default arm"
    nothing = everywhere(lambda made: made.model_copy(update={"tokens": (), "logprobs": (), "top": ()}), arms)
    found = company(nothing, YARDSTICK, NOISE)
    assert found is not None
    assert found.verdict is Verdict.INVALID
