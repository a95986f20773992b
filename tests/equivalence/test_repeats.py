"""The measurement of false alarms: what a repeat asks, and that it can raise an alarm."""

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.equivalence import repeats
from tests.equivalence.doubles import Double, arm_set
from tests.equivalence.faults import FAULTS
from tests.equivalence.toy import Arms, Plan, arms
from validate.equivalence import arm, order, scenes
from validate.equivalence.prompts import seeded
from validate.equivalence.scenes import Facts, Scene
from validate.errors import InputError
from validate.records import arm_folder
from validate.verdict import Verdict

PROMPTS = seeded(0, (3, 90))
SET = arm.load("cpu-bf16")
SCENES = scenes.build(SET.scenes, Facts(32, 512, 2048, 72), PROMPTS)


def played(scene: Scene, seed: int) -> tuple[list[scenes.Request], list[list[str]]]:
    """All requests by step of a scheduler that decodes a token a step, and their names."""
    due = repeats.Repeat("cpu-bf16", SET, "default", seed=seed).compose(scene, PROMPTS)
    progress: dict[str, int] = {}
    asked: dict[str, scenes.Request] = {}
    steps: list[list[str]] = []
    while not due.over(ended := {name for name, count in progress.items() if count >= asked[name].tokens}):
        new = due.due(progress, ended)
        asked |= {request.name: request for request in new}
        steps.append([request.name for request in new])
        progress = {name: progress.get(name, 0) + 1 for name in asked}
    return list(asked.values()), steps


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_a_repeat_asks_the_same_requests_in_batches_of_its_own(scene: Scene) -> None:
    made = [played(scene, seed) for seed in range(1, 6)]
    for requests, _ in made:
        own = [request for request in requests if not request.name.startswith(order.COMPANION)]
        assert sorted(own, key=lambda r: r.name) == sorted(scene.requests, key=lambda r: r.name)
    assert played(scene, 1) == made[0]
    assert len({repr(steps) for _, steps in made}) > 1


def test_all_are_preempted_whoever_comes_first() -> None:
    (scene,) = (scene for scene in SCENES if scene.name == "preempted")
    for seed in range(20):
        due = repeats.Repeat("cpu-bf16", SET, "default", seed=seed).compose(scene, PROMPTS)
        (first, *_) = due.due({}, set())
        assert first.tokens > (scene.preempt_after or 0)
        assert due.preempt({first.name: scene.preempt_after or 0})


def test_a_sound_repeat_passes_and_a_faulty_one_is_an_alarm(sound: Arms) -> None:
    passed = repeats.compared("repeat-01", replace(sound, specialized=sound.again))
    assert passed.verdict is Verdict.PASS
    assert passed.rms == pytest.approx(passed.again_rms)
    faulty = arms(Plan(), fault=FAULTS["stale_after_preemption"]).specialized
    failed = repeats.compared("repeat-02", replace(sound, specialized=faulty))
    assert failed.verdict is Verdict.FAIL
    assert "preempted/" in failed.text
    assert repeats.alarms([passed, failed]) == ["repeat-02"]
    assert "alarms: 1 of 2" in repeats.summary([passed, failed])


def test_repeats_share_an_engine_and_are_recorded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Double] = []
    monkeypatch.setattr(repeats, "InProcess", lambda *_: started.append(Double()) or started[-1])
    two = arm_set({"kind": "together", "name": "two", "sizes": [2], "lengths": [3, 5], "tokens": 4, "decode_only": True})

    def made() -> list[Path]:
        asked = [repeats.Repeat("two.toml", two, "default", tmp_path / f"repeat-{n}", seed=n) for n in (1, 2)]
        return list(repeats.repeats(asked, Console()))

    folders = made()
    assert len(started) == 1
    assert [len(arm_folder.read(there).transcripts) for there in folders] == [2, 2]
    assert started[0].plays[0] != started[0].plays[1]
    assert made() == folders
    assert len(started) == 1


def test_repeats_of_another_kind_are_not_compared(sound: Arms) -> None:
    assert repeats.of_one_engine(sound.default, sound.again, "default-again", None) is sound.again
    with pytest.raises(InputError, match="it records default-again, planted None"):
        repeats.of_one_engine(sound.default, sound.again, "default", None)
    faulty = replace(sound.again, manifest=sound.again.manifest.model_copy(update={"planted": "error-grows"}))
    with pytest.raises(InputError, match="give another --output"):
        repeats.of_one_engine(sound.default, faulty, "default-again", None)
