"""Whole comparisons from folders: the verdicts, and every fault of a record planted in turn and found."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evals.comparing.comparison import Comparison, compare
from evals.grading.response import Outcome
from evals.records import folder
from tests.evals.comparing.arms import Scores, Task, ended, manifest, steps, write
from validate.errors import InputError
from validate.records.arm import Steps
from validate.verdict import Verdict

ITEMS, REPEATS = 100, 8
CHECKS = ["same engine", "complete", "attestation", "errors", "A/A", "score of hard", "score of easy", "ends"]


def drawn(seed: int, rate: float = 0.9) -> Scores:
    """Of items whose rates are the same for every seed."""
    rates = np.random.default_rng(0).beta(rate * 4, (1 - rate) * 4, (ITEMS, 1))
    return (np.random.default_rng(seed).random((ITEMS, REPEATS)) < rates).astype(np.float32)


def tasks(seed: int, **hard: Any) -> tuple[Task, Task]:
    return Task("hard", drawn(seed), margin=0.04, **hard), Task("easy", drawn(seed + 50, 0.99), margin=0.02)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    there = tmp_path_factory.mktemp("sound")
    for seed, name in enumerate(("default", "default-again", "specialized"), 1):
        write(there / name, name, *tasks(seed))
    return there


@pytest.fixture
def arms(sound: Path, tmp_path: Path) -> Path:
    """A copy to plant faults in."""
    shutil.copytree(sound, tmp_path / "arms")
    return tmp_path / "arms"


def compared(arms: Path) -> Comparison:
    return compare(arms / "default", arms / "default-again", arms / "specialized")


def specialized(arms: Path, *made: Task, **changed: Any) -> Comparison:
    shutil.rmtree(arms / "specialized")
    write(arms / "specialized", "specialized", *made, **changed)
    return compared(arms)


def texts(comparison: Comparison) -> str:
    return "\n".join(finding.line for finding in comparison.findings)


def test_sound_arms_pass(sound: Path) -> None:
    found = compared(sound)
    assert [check.name for check in found.checks] == CHECKS
    assert (found.verdict, found.exit_code, found.findings, found.alarms) == (Verdict.PASS, 0, [], ())
    alone = compare(sound / "default", None, sound / "specialized")
    assert alone.verdict is Verdict.PASS
    assert alone.checks[4].verdict is None
    assert alone.tasks[0].again is None


def test_a_loss_beyond_the_margin_fails(arms: Path) -> None:
    lost = drawn(3) * (np.random.default_rng(0).random((ITEMS, REPEATS)) > 0.12)
    found = specialized(arms, Task("hard", lost, margin=0.04), tasks(3)[1])
    assert (found.verdict, found.exit_code) == (Verdict.FAIL, 1)
    assert "hard: exact" in texts(found)
    assert "the loss is beyond the margin" in texts(found)
    assert found.tasks[1].verdict is Verdict.PASS


def test_too_few_responses_are_inconclusive_and_say_how_many_would_do(tmp_path: Path) -> None:
    few = [Task("hard", drawn(seed)[:, :1], margin=0.03) for seed in (1, 2)]
    write(tmp_path / "default", "default", few[0])
    write(tmp_path / "specialized", "specialized", few[1])
    found = compare(tmp_path / "default", None, tmp_path / "specialized")
    assert (found.verdict, found.exit_code) == (Verdict.INCONCLUSIVE, 2)
    needed = found.tasks[0].repeats_needed
    assert needed is not None
    assert f"{needed} repeats in all would decide it if this difference stays: {needed - 1} more" in texts(found)


def test_a_real_loss_within_the_margin_is_an_alarm_and_no_failure(arms: Path) -> None:
    lost = drawn(1) * (np.random.default_rng(0).random((ITEMS, REPEATS)) > 0.02)
    found = specialized(arms, Task("hard", lost, margin=0.04), tasks(3)[1])
    assert found.verdict is Verdict.PASS
    assert [alarm.split(" is lower")[0] for alarm in found.alarms] == ["hard: exact"]


@pytest.mark.parametrize(("lost", "alarms"), [(4, 0), (5, 1)])
def test_a_loss_that_chance_makes_once_in_twenty_runs_is_an_alarm(tmp_path: Path, lost: int, alarms: int) -> None:
    """McNemar's test of 4 pairs that all part one way: 1 / 16; of 5: 1 / 32."""
    right = np.ones((ITEMS, 1))
    less = np.where(np.arange(ITEMS)[:, None] < lost, 0.0, right)
    write(tmp_path / "default", "default", Task("hard", right, margin=0.3))
    write(tmp_path / "specialized", "specialized", Task("hard", less, margin=0.3))
    found = compare(tmp_path / "default", None, tmp_path / "specialized")
    assert (found.verdict, len(found.alarms)) == (Verdict.PASS, alarms)
    assert found.tasks[0].p == 0.5**lost
    right, less = (Task("other", scores, margin=0.3) for scores in (right, less))
    write(tmp_path / "two", "default", Task("hard", right.scores, margin=0.3), right)
    write(tmp_path / "both", "specialized", Task("hard", less.scores, margin=0.3), less)
    assert compare(tmp_path / "two", None, tmp_path / "both").alarms == ()  # twice that, each as one of two


@pytest.mark.parametrize("kinds", [1, 3])
def test_alarms_of_endings_are_of_all_endings_and_lengths_together(tmp_path: Path, kinds: int) -> None:
    """Six of each kind against none: 1 / 64, twice that beside the lengths, four times as one of three kinds."""
    wrong = Task("hard", np.zeros((ITEMS, 1)), margin=0.5)
    outcomes = (Outcome.TRUNCATED, Outcome.UNPARSED, Outcome.EMPTY)[:kinds]
    ends = {(6 * place + n, 0): ended(outcome) for place, outcome in enumerate(outcomes) for n in range(6)}
    write(tmp_path / "default", "default", wrong)
    write(tmp_path / "specialized", "specialized", Task("hard", wrong.scores, margin=0.5, changed=ends))
    found = compare(tmp_path / "default", None, tmp_path / "specialized")
    assert [end.adjusted for end in found.ends if end.p is not None] == [(1 + kinds) / 64] * kinds
    assert len(found.alarms) == (1 if kinds == 1 else 0)


@pytest.mark.parametrize("outcome", [Outcome.TRUNCATED, Outcome.REPEATED, Outcome.UNPARSED, Outcome.EMPTY, Outcome.NO_ANSWER])
def test_endings_that_cost_no_score_are_found(arms: Path, outcome: Outcome) -> None:
    """They take the place of wrong answers: the scores are those of the sound arm."""
    scores = drawn(3)
    wrong = [(int(item), int(repeat)) for item, repeat in np.random.default_rng(0).permutation(np.argwhere(scores == 0))]
    few = {at: ended(outcome) for at in wrong[:12]}
    found = specialized(arms, Task("hard", scores, margin=0.04, changed=few), tasks(3)[1])
    assert found.verdict is Verdict.PASS
    assert len(found.alarms) == 1
    assert found.alarms[0].startswith(f"hard: {outcome} 12 of 800 against 0")
    (growth,) = [end for end in found.ends if end.specialized]
    assert growth.low is not None
    assert growth.high is not None
    assert 0.0 < growth.low < 12 / 800 < growth.high
    many = {at: ended(outcome) for at in wrong[:70]}
    found = specialized(arms, Task("hard", scores, margin=0.04, changed=many), tasks(3)[1])
    assert found.verdict is Verdict.FAIL
    assert f"{outcome} 70 of 800 against 0" in texts(found)


def test_loops_and_lengths_are_found(arms: Path) -> None:
    loops = {(item, 0): {"loop": True} for item in range(12)}
    found = specialized(arms, Task("hard", drawn(3), margin=0.04, changed=loops), tasks(3)[1])
    assert [alarm.split(",")[0] for alarm in found.alarms] == ["hard: loop 12 of 800 against 0"]
    found = specialized(arms, Task("hard", drawn(3), margin=0.04, length=1.1), tasks(3)[1])
    assert len(found.alarms) == 1
    assert "hard: responses are 1.099 times as long" in found.alarms[0]
    assert found.lengths[0].ratio == pytest.approx(1.1, abs=0.01)


def test_errors_are_left_out_and_few(arms: Path) -> None:
    one = {(0, 0): ended(Outcome.ERROR, error="refused")}
    found = specialized(arms, Task("hard", drawn(3), margin=0.04, changed=one), tasks(3)[1])
    assert found.verdict is Verdict.PASS
    assert (found.tasks[0].pairs, found.tasks[0].asked, found.tasks[0].lost) == (799, 800, 1 / 800)
    assert "hard: 0 in default, 1 in the other" in found.checks[3].detail
    most = {(item, 0): one[0, 0] for item in range(8)}
    found = specialized(arms, Task("hard", drawn(3), margin=0.04, changed=most), tasks(3)[1])
    assert found.checks[3].verdict is Verdict.PASS
    many = {(item, 0): one[0, 0] for item in range(9)}
    found = specialized(arms, Task("hard", drawn(3), margin=0.04, changed=many), tasks(3)[1])
    assert (found.verdict, found.exit_code) == (Verdict.INVALID, 3)
    assert "hard: 9 of 800 pairs have an error in either arm, 1% allowed" in texts(found)
    assert found.tasks[0].verdict is None


def test_what_was_asked_more_than_once_is_said(arms: Path) -> None:
    changed = {(item, 0): {"attempts": 3} for item in range(5)}
    found = specialized(arms, Task("hard", drawn(3), margin=0.04, changed=changed), tasks(3)[1])
    assert found.verdict is Verdict.PASS
    assert found.checks[3].detail == "hard: asked more than once 0 in default, 5 in the other"


def test_what_was_not_asked_is_said(arms: Path) -> None:
    for name in ("default", "default-again", "specialized"):
        remade(name, tasks=plans(left_out=(("item100", 2_000_000),)))(arms)
    assert "items not asked, being longer than the window: hard 1 of 101, easy 1 of 101" in compared(arms).checks[1].detail


def test_errors_that_may_hide_a_loss_leave_a_pass_undecided(tmp_path: Path) -> None:
    """Of identical arms the lower bound is that of two flips; the errors are more than the rest of the margin."""
    right = np.ones((1000, 1), np.float32)
    lacking = {(item, 0): ended(Outcome.ERROR) for item in range(5)}
    write(tmp_path / "default", "default", Task("easy", right, margin=0.005))
    write(tmp_path / "sound", "specialized", Task("easy", right, margin=0.005))
    write(tmp_path / "errors", "specialized", Task("easy", right, margin=0.005, changed=lacking))
    write(tmp_path / "too", "default", Task("easy", right, margin=0.005, changed=lacking))
    assert compare(tmp_path / "default", None, tmp_path / "sound").verdict is Verdict.PASS
    found = compare(tmp_path / "default", None, tmp_path / "errors")
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "errors of the specialized arm alone, 0.50% of the pairs, might hide a loss" in texts(found)
    assert compare(tmp_path / "too", None, tmp_path / "errors").verdict is Verdict.PASS  # what failed in both arms hides nothing


def test_an_error_that_was_asked_again_is_none(arms: Path) -> None:
    failed = Task("hard", drawn(3), margin=0.04, changed={(4, 2): ended(Outcome.ERROR)})
    shutil.rmtree(arms / "specialized")
    write(arms / "specialized", "specialized", failed, tasks(3)[1])
    folder.append(arms / "specialized", [one for one in tasks(3)[0].answers() if one.key == ("hard", "item4", 2)])
    found = compared(arms)
    assert found.verdict is Verdict.PASS
    assert found.tasks[0].pairs == 800


@pytest.mark.parametrize("name", ["default", "default-again"])
def test_a_default_path_that_differs_from_itself_proves_nothing(arms: Path, name: str) -> None:
    shutil.rmtree(arms / name)
    lost = drawn(2) * (np.random.default_rng(0).random((ITEMS, REPEATS)) > 0.12)
    write(arms / name, name, Task("hard", lost, margin=0.04), tasks(2)[1])
    found = compared(arms)
    assert found.verdict is Verdict.INVALID
    assert "hard: the default path differs from itself by" in texts(found)
    assert "not judged, as the records are no proof" in found.checks[5].detail


def test_a_run_that_was_stopped_fails_on_its_evidence(arms: Path) -> None:
    """Half of the repeats of the first task, and none of the second."""
    broken = Task("hard", drawn(3) * (np.random.default_rng(0).random((ITEMS, REPEATS)) > 0.3), margin=0.04)
    shutil.rmtree(arms / "specialized")
    write(arms / "specialized", "specialized", *tasks(3), end=None)
    kept = [one for one in broken.answers() if one.repeat < 4]
    (arms / "specialized" / folder.RESPONSES).unlink()
    folder.append(arms / "specialized", kept)
    found = compared(arms)
    assert found.verdict is Verdict.FAIL
    assert "specialized lacks responses, and fails without them: e-value" in texts(found)
    assert [one.repeats for one in found.evidence] == [4, 0]
    folder.append(arms / "specialized", [kept[0].model_copy(update={"repeat": 8})])
    remade("default", end=None)(arms)
    said = texts(compared(arms))
    assert "default: the run has no end" in said  # what else is wrong is not hidden
    assert "specialized: a repeat beyond the 8 that were planned" in said
    (arms / "specialized" / folder.RESPONSES).unlink()
    folder.append(arms / "specialized", [one for one in tasks(3)[0].answers() if one.repeat < 4])
    found = compared(arms)
    assert found.verdict is Verdict.INVALID
    assert "specialized: 400 of 800 responses are missing" in texts(found)


@pytest.mark.parametrize(
    "fault", ["few specialized steps", "specialized steps by default", "a response twice", "missing responses"]
)
def test_evidence_of_records_that_are_no_proof_fails_nobody(arms: Path, fault: str) -> None:
    broken = Task("hard", drawn(3) * (np.random.default_rng(0).random((ITEMS, REPEATS)) > 0.3), margin=0.04)
    (arms / "specialized" / folder.RESPONSES).unlink()
    folder.append(arms / "specialized", [one for one in broken.answers() if one.repeat < 4])
    assert compared(arms).verdict is Verdict.FAIL
    FAULTS[fault][0](arms)
    assert compared(arms).verdict is Verdict.INVALID


def remade(name: str, /, **changed: Any) -> Callable[[Path], None]:
    """Another manifest of one arm."""

    def plant(arms: Path) -> None:
        folder.write_manifest(arms / name, manifest(name, *tasks(1)).model_copy(update=changed))

    return plant


def recounted(name: str, counted: Steps) -> Callable[[Path], None]:
    return lambda arms: folder.write_steps(arms / name, counted)


def appended(name: str, **changed: Any) -> Callable[[Path], None]:
    """A further response of one arm."""
    first = tasks(1)[0].answers()[0]
    return lambda arms: folder.append(arms / name, [first.model_copy(update=changed)])


def cut(arms: Path) -> None:
    path = arms / "default" / folder.RESPONSES
    path.write_text("\n".join(path.read_text().splitlines()[:-3]) + "\n")


def without_steps(arms: Path) -> None:
    (arms / "specialized" / folder.STEPS).unlink()


def plans(**changed: Any) -> Any:
    return tuple(task.plan().model_copy(update=changed) for task in tasks(1))


FAULTS = {
    "another engine": (remade("specialized", engine={"tensor_parallel_size": 2}), "engine.tensor_parallel_size: default has 1"),
    "another model": (remade("specialized", model="other"), "model: default has"),
    "another environment": (remade("specialized", environment={"VLLM_X": "1"}), "environment.VLLM_X: default has None"),
    "another commit": (remade("specialized", commit="abc"), "commit: default has None"),
    "other data": (remade("specialized", tasks=plans(digest="other")), "tasks.hard.digest"),
    "another margin": (remade("specialized", tasks=plans(margin=0.5)), "tasks.hard.margin"),
    "other sampling": (remade("specialized", tasks=plans(generation={"temperature": 0.0})), "tasks.hard.generation.temperature"),
    "a task less": (remade("specialized", tasks=plans()[:1]), "tasks: default has ['hard', 'easy']"),
    "more requests at once": (remade("default-again", concurrency=9), "concurrency: default has 8, default-again has 9"),
    "another machine": (
        remade("specialized", machine=manifest("").machine.model_copy(update={"cpu": "other"})),
        "machine.cpu: default has by hand, specialized has other",
    ),
    "a server on one side": (remade("specialized", served=("http://host",)), "served: default has none"),
    "no specialized path": (remade("specialized", decode_backend="auto"), "decode_backend: specialized has auto"),
    "both specialized": (remade("default", decode_backend="latency_specialized"), "default has latency_specialized, too"),
    "another path in again": (remade("default-again", decode_backend="other"), "default-again has other"),
    "the same seeds in again": (remade("default-again", name="default"), "name: default and default, whose seeds are the same"),
    "no end": (remade("specialized", end=None), "specialized: the run has no end"),
    "missing responses": (cut, "easy: default: 3 of 800 responses are missing"),
    "a response twice": (appended("specialized"), "hard: specialized: a second response to one request: 1, the first item item0"),
    "an unknown task": (appended("default", task="new"), "new: default: a task that was not planned"),
    "an item too many": (appended("default", item="new"), "an item beyond the 100 that were planned"),
    "a repeat too many": (appended("default", repeat=8), "a repeat beyond the 8 that were planned"),
    "a negative repeat": (appended("default", repeat=-1), "a repeat beyond the 8 that were planned"),
    "no steps": (without_steps, "specialized: no account of its steps"),
    "few specialized steps": (recounted("specialized", steps(True, "hard", "easy", ran=94)), "94.0% of decode and verify steps"),
    "a task without steps": (
        recounted("specialized", steps(True, "hard")),
        "easy: specialized: no decode or verify step counted",
    ),
    "specialized steps by default": (
        recounted("default", steps(True, "hard", "easy")),
        "hard: default: 99 steps ran",
    ),
    "by default again": (recounted("default-again", steps(True, "easy")), "easy: default-again: 99 steps ran specialized"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_records_that_are_no_proof(arms: Path, fault: str) -> None:
    plant, said = FAULTS[fault]
    plant(arms)
    found = compared(arms)
    assert (found.verdict, found.exit_code) == (Verdict.INVALID, 3)
    assert said in texts(found)


def test_one_task_does_not_vouch_for_another(arms: Path) -> None:
    few, many = steps(True, "hard", ran=50).by_scene["hard"], steps(True, "easy", ran=100).by_scene["easy"]
    more = tuple(one.model_copy(update={"count": 100 * one.count}) for one in many)
    folder.write_steps(arms / "specialized", Steps(source="by hand", by_scene={"hard": few, "easy": more}))
    found = compared(arms)
    assert found.verdict is Verdict.INVALID
    assert "hard: specialized: 50.0% of decode and verify steps" in texts(found)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"scores": {"other": 1.0}}, "no score named exact"),
        ({"scores": {"exact": float("nan")}}, "a score that cannot be"),
        ({"scores": {"exact": 1.5}}, "a score that cannot be"),
        ({"outcome": Outcome.EMPTY, "scores": {"exact": 1.0}}, "a score that cannot be"),
        ({"tokens": 2**31}, "a number of tokens that cannot be"),
        ({"tokens": 0}, "an answer of no tokens"),
        ({"prompt_tokens": 2**31}, "a number of tokens that cannot be"),
        ({"prompt_tokens": 40}, "a prompt that is longer or shorter than in an arm before"),
        ({"stratum": "2 needles"}, "an item of two strata"),
    ],
)
def test_a_response_that_cannot_be(arms: Path, changed: dict[str, Any], said: str) -> None:
    found = specialized(arms, *tasks(3, changed={(4, 4): changed}))
    assert found.verdict is Verdict.INVALID
    assert f"hard: specialized: {said}: 1, the first item item4, repeat 4" in texts(found)


@pytest.mark.parametrize("counted", [{"corrupted": 2}, {"ranks_agree": False}])
@pytest.mark.parametrize("name", ["default", "default-again", "specialized"])
def test_nan_logits_and_ranks_that_part_fail(arms: Path, name: str, counted: dict[str, Any]) -> None:
    folder.write_steps(arms / name, steps(name == "specialized", "hard", "easy").model_copy(update=counted))
    found = compared(arms)
    assert found.verdict is Verdict.FAIL
    assert texts(found).startswith(f"FAIL {name}: ")


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"margin": 0.0}, "margin: 0.0 is no share"), ({"items": 1}, "two items and one repeat of each")],
)
def test_plans_from_which_nothing_follows(arms: Path, changed: dict[str, Any], said: str) -> None:
    for name in ("default", "default-again", "specialized"):
        remade(name, tasks=plans(**changed))(arms)
    assert said in texts(compared(arms))


def test_a_folder_given_twice(sound: Path) -> None:
    found = compare(sound / "default", sound / "default", sound / "specialized")
    assert found.verdict is Verdict.INVALID
    assert "one folder is given twice" in texts(found)


def test_what_may_differ_does(arms: Path) -> None:
    machine = manifest("default").machine.model_copy(update={"memory_gib": 7.9})
    changed = {"start": "2026-10-02T00:00:00Z", "machine": machine, "planted": "shifted"}
    remade("specialized", **changed)(arms)
    assert compared(arms).verdict is Verdict.PASS


def test_a_plan_too_large_to_hold_and_a_damaged_line_are_refused(arms: Path) -> None:
    with (arms / "specialized" / folder.RESPONSES).open("a") as file:
        file.write("{}\n")
    with pytest.raises(InputError, match=r"responses.jsonl, line 1601: task"):
        compared(arms)
    for name in ("default", "default-again", "specialized"):
        remade(name, tasks=plans(items=10**9))(arms)
    with pytest.raises(InputError, match="planned; at most"):
        compared(arms)
