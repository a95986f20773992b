"""What is less than the whole of a part is said: by name of what was asked, and by what is there."""

from typing import Any

import pytest

from evals.comparing.comparison import Comparison as Benchmarks
from tests.equivalence.toy import Plan
from tests.equivalence.toy import manifest as arm
from tests.evals.comparing.arms import manifest as evals_arm
from tests.evals.comparing.test_comparison import tasks
from validate import profiles
from validate.equivalence.compare.comparison import Comparison
from validate.equivalence.compare.finding import Check
from validate.long_output.drift.outcome import Arguments as DriftArguments
from validate.long_output.drift.outcome import Curve, DriftManifest, Outcome
from validate.races import searching
from validate.races.record import Asked, Explored
from validate.races.record import Manifest as Searched
from validate.records.arm import SPECIALIZED, ArmManifest
from validate.records.model import Arguments, Machine, Manifest
from validate.signoff.reading import lacking
from validate.verdict import Verdict

RUN: dict[str, Any] = {
    "versions": {},
    "source": "0",
    "commit": "c",
    "dirty": False,
    "machine": Machine(system="Linux", cpu="a CPU", cores=2, memory_gib=8.0),
    "start": "2026-01-01T00:00:00Z",
}


def numerics(name: str = "gb300-tp8", **changed: Any) -> list[str]:
    profile = profiles.load(name).model_copy(update=changed.pop("profile", {}))
    arguments = Arguments(profile=name, seeds=1, **changed)
    made = Manifest(arguments=arguments, profile=profile, runs_on="gb300", subjects=(), stages=(), planned=9, **RUN)
    return list(lacking.of_numerics(made))


def test_a_profile_is_whole_without_a_selection() -> None:
    assert numerics() == numerics("gb300-tp16") == numerics(profile={"seeds": 3}) == []
    assert numerics(keyword="kda") == ["-k kda: 9 cases of its profile"]
    assert numerics("gb300") == ["profile gb300, not gb300-tp8 or gb300-tp16"]
    assert numerics(profile={"batches": (1,)}) == ["profile gb300-tp8 is another one by now"]


def races(found: list[Explored], **asked: Any) -> list[str]:
    moved = asked.pop("moved", {})
    return list(lacking.of_races(Searched(asked=Asked(**asked), planned=len(found), moved=moved, **RUN), found))


def test_every_search_and_schedule_is_wanted() -> None:
    every = [Explored(search=s, states=1, steps=1, seconds=0.0, complete=True) for s in searching.searches(Asked())]
    assert races(every) == races(every, walks=200) == []
    assert races(every[1:]) == [f"without 1 searches, the first of them {every[0].search.name}"]
    assert races(every, walks=2) == ["2 random schedules of a size, not 100"]
    assert races(every, moved=None) == ["its models were not held against vLLM's files: --vllm-src"]


def drift(steps: int, *subjects: str) -> list[str]:
    made = DriftManifest(arguments=DriftArguments(steps=steps), subjects=("default", "specialized"), **RUN)
    none = Curve(steps=(), state=(), bound=())
    checks = (Check(name="bound", verdict=Verdict.PASS, detail=""),)
    return list(
        lacking.of_drift(made, [Outcome(seed=0, subject=s, steps=steps, heads=(), checks=checks, curve=none) for s in subjects])
    )


def test_every_step_and_subject_of_drift_is_wanted() -> None:
    assert drift(100_000, "default", "specialized") == []
    assert drift(128, "default", "specialized") == ["128 steps, not 100,000"]
    assert drift(100_000, "default") == ["no outcome of specialized, seed 0"]


def test_a_run_of_nothing_is_not_the_whole() -> None:
    none = Curve(steps=(), state=(), bound=())
    bare = [Outcome(seed=0, subject="specialized", steps=100_000, heads=(), checks=(), curve=none)]
    made = DriftManifest(arguments=DriftArguments(steps=100_000), subjects=("specialized",), **RUN)
    assert list(lacking.of_drift(made, bare)) == ["no check of specialized"]
    made = DriftManifest(arguments=DriftArguments(steps=100_000, seeds=0), subjects=(), **RUN)
    assert "no seed or no subject" in list(lacking.of_drift(made, bare))
    empty = [Explored(search=s, states=0, steps=0, seconds=0.0, complete=True) for s in searching.searches(Asked())]
    assert races(empty) == [f"{len(empty)} searches saw no state, the first of them {empty[0].search.name}"]


def engines(arm_set: str, wanted: tuple[str, ...], **default: Any) -> list[str]:
    scenes = tuple(lacking._scenes(arm_set)) if arm_set in wanted else ()
    changes = {"arm_set": arm_set, "scenes": default.pop("scenes", scenes)}
    specialized = arm("specialized", SPECIALIZED, Plan()).model_copy(update=changes)
    arms: tuple[ArmManifest, ...] = (specialized.model_copy(update={"name": "default", **default}), specialized, specialized)
    made = Comparison(verdict=Verdict.PASS, exit_code=0, folders=(), arms=arms, checks=())
    return list(lacking.of_engines(made, wanted))


@pytest.mark.parametrize("wanted", [lacking.DEPLOYED, lacking.COMPANY, lacking.LONG])
def test_every_scene_of_an_arm_set_is_wanted(wanted: tuple[str, ...]) -> None:
    for name in wanted:
        scenes = lacking._scenes(name)
        assert engines(name, wanted) == []
        assert engines(name, wanted, scenes=tuple(scenes[1:])) == [f"without 1 scenes of {name}, the first of them {scenes[0]}"]


def test_a_smaller_arm_set_or_ones_own_is_not_the_whole() -> None:
    (said,) = engines("canaries-gb300-tp8", lacking.LONG)
    assert said.startswith("arm set canaries-gb300-tp8, not long-gb300-tp8 or long-gb300-tp16 or")
    assert engines("/home/gb300-tp8.toml", lacking.DEPLOYED)[0].startswith("arm set /home/gb300-tp8.toml, not gb300-tp8 or")


def test_golden_default_arms_are_not_the_releases() -> None:
    (said,) = engines("gb300-tp8", lacking.DEPLOYED, versions={"vllm": "0.32.0"}, start="2026-01-01")
    assert said == "a default path of its own: default is a golden record of 2026-01-01"


def test_every_item_of_a_benchmark_is_wanted() -> None:
    plan = tasks(1)[0].plan().model_copy(update={"name": "gsm8k", "items": 1300})
    for left_out, says in (((), ["gsm8k: 1300 of 1319 items"]), (tuple((f"{n}", 9) for n in range(19)), [])):
        arms = tuple(
            evals_arm(name, suite="gb300-tp8", tasks=(plan.model_copy(update={"left_out": left_out}),))
            for name in ("default", "default-again", "specialized")
        )
        made = Benchmarks(verdict=Verdict.PASS, exit_code=0, folders=(), arms=arms, checks=())
        assert list(lacking.of_benchmarks(made)) == says
        fewer = made.model_copy(update={"arms": (arms[0], arms[2])})
        assert "without an A/A arm: how far the default path differs from itself" in lacking.of_benchmarks(fewer)
