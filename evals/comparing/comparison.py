"""The whole comparison of arms of evals: every check, the figures behind it, one verdict.

The rule. A task's verdict is that of non-inferiority: PASS if the lower one-sided 95 % bound of (specialized - default) is above
-margin, FAIL if the upper one is below, else INCONCLUSIVE.

- PASS of the run asks it of every task. No alpha is split (intersection-union: R. L. Berger, "Multiparameter hypothesis testing
  and acceptance sampling", Technometrics 24 (1982)): where one task's loss is its margin, the run passes only if that task does,
  with probability 5 % at most.
- FAIL of the run needs one task whose loss is proven to be beyond its margin, or one way to end (``ends.py``). Of a loss of
  exactly the margin that is said falsely with 5 % a task; without any loss chance would have to make up the whole margin, too,
  which tests see less than once in a hundred runs of all tasks.
- A loss that is proven (Holm over the tasks, 5 %) but not beyond the margin is what the margin was declared to allow: it does
  not fail the run. It is an alarm, which stands above the figures, as a PASS with a real loss is not a PASS without one. So is
  a rate of endings that has grown, and another length: Holm over all of these, 5 %.
- A run that was stopped is FAIL where the e-value reaches STOP (``stopping.py``) and nothing else is INVALID, else INVALID.
- INVALID: whatever makes the records no proof (``comparability.py``), and an A/A arm that differs from the default one by more
  than a margin: what is measured then is not the path. Scores are shown then and not judged.

Errors are no answers. A pair with one in either arm is left out; of more than 1 % of a task's pairs that is INVALID. A PASS has
to hold with each error of the specialized arm alone counted as a right answer lost; asking again decides it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from evals.comparing import comparability, ends, flipped, lengths, scores, stopping, strata
from evals.comparing.ends import End
from evals.comparing.flipped import Flipped
from evals.comparing.lengths import Lengths
from evals.comparing.reading import Arm, Items, read
from evals.comparing.scores import Task, points
from evals.comparing.stopping import Evidence
from evals.comparing.strata import Stratum
from evals.records import folder
from evals.records.model import EvalManifest
from validate.equivalence.compare.finding import Check, Finding, check
from validate.records import provenance, seal
from validate.records.model import SCHEMA_VERSION, Compared
from validate.stats.holm import holm
from validate.verdict import Verdict, worst

ALPHA = 0.05  # of all scores' alarms together, and of all others'


class Comparison(Compared):
    """``comparison.json``.

    ``folders``: of the arms, specialized last; ``records``: their digests (records/seal.py). ``flips``: items that differ, by
    task, of which ``flipped`` holds the first.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    layer: Literal["evals"] = "evals"
    verdict: Verdict
    exit_code: int
    folders: tuple[str, ...]
    records: tuple[str, ...] = ()
    arms: tuple[EvalManifest, ...]
    checks: tuple[Check, ...]
    alarms: tuple[str, ...] = ()
    tasks: tuple[Task, ...] = ()
    ends: tuple[End, ...] = ()
    lengths: tuple[Lengths, ...] = ()
    strata: tuple[Stratum, ...] = ()
    flips: dict[str, int] = Field(default_factory=dict)
    flipped: tuple[Flipped, ...] = ()
    evidence: tuple[Evidence, ...] = ()

    @property
    def findings(self) -> list[Finding]:
        """All of them, FAIL first."""
        every = [finding for check in self.checks for finding in check.findings]
        return sorted(every, key=lambda finding: finding.verdict is not Verdict.FAIL)


def compare(default: Path, again: Path | None, specialized: Path) -> Comparison:
    """Arms that are not of one engine and plan are not read further. InputError for a record that is damaged."""
    paths = [path for path in (default, again, specialized) if path is not None]
    manifests = [folder.manifest(path) for path in paths]
    engine = comparability.same_engine(manifests[0], manifests[1] if again else None, manifests[-1])
    if len({path.resolve() for path in paths}) < len(paths):
        twice = Finding(
            verdict=Verdict.INVALID, text="one folder is given twice: an arm that is compared with itself shows nothing"
        )
        engine = check(engine.name, engine.detail, [*engine.findings, twice])
    if engine.verdict is not Verdict.PASS:
        return _comparison(paths, manifests, [engine])
    items: dict[str, Items] = {}
    arms = tuple(read(path, manifest, items) for path, manifest in zip(paths, manifests, strict=True))
    return _compared(paths, arms, arms[1] if again else None, items, engine)


def _compared(paths: list[Path], arms: tuple[Arm, ...], again: Arm | None, items: dict[str, Items], engine: Check) -> Comparison:
    default, specialized = arms[0], arms[-1]
    plans = default.manifest.tasks
    pairs = {plan.name: (default.tasks[plan.name], specialized.tasks[plan.name]) for plan in plans}
    judged = {
        plan.name: scores.judge(
            plan,
            *pairs[plan.name],
            again.tasks[plan.name] if again else None,
            comparability.lost(default, specialized, plan.name),
        )
        for plan in plans
    }
    tasks = _adjusted([task for task in judged.values() if task is not None])
    ended = [end for plan in plans for end in ends.judge(plan, *pairs[plan.name])]
    long = [one for plan in plans if (one := lengths.compare(plan, *pairs[plan.name]))]
    ended, long = _adjusted_together(ended, long)
    found = stopping.evidence(default, specialized)
    others = [
        comparability.attested(default, again, specialized),
        comparability.errors(default, specialized),
        _again(again, tasks),
    ]
    records = [engine, _complete(arms, found if _sound(others) else []), *others]
    proof = records[1].verdict is Verdict.PASS and _sound(records)
    if not proof:
        tasks = [task.model_copy(update={"verdict": None}) for task in tasks]
        ended = [end.model_copy(update={"verdict": None}) for end in ended]
    by_name = {task.name: task for task in tasks}
    stopped = records[1].verdict is Verdict.FAIL
    judged_tasks = [plan for plan in plans if specialized.asked(plan.name) or not stopped]
    checks = [*records, *(_scored(plan.name, by_name.get(plan.name)) for plan in judged_tasks), _ends(ended, proof)]
    return _comparison(
        paths,
        [arm.manifest for arm in arms],
        checks,
        alarms=[
            *map(_lower, filter(_alarming, tasks)),
            *map(_grown, filter(_alarming, ended)),
            *map(_long, filter(_alarming, long)),
        ],
        tasks=tasks,
        ends=ended,
        lengths=long,
        strata=[one for plan in plans if plan.name in items for one in strata.compare(plan, items[plan.name], *pairs[plan.name])],
        flips={plan.name: flipped.count(*pairs[plan.name]) for plan in plans},
        flipped=[one for plan in plans if plan.name in items for one in flipped.table(plan, items[plan.name], *pairs[plan.name])],
        evidence=found,
    )


def _adjusted(tasks: list[Task]) -> list[Task]:
    """Holm over the tasks."""
    p = holm(np.array([task.p for task in tasks]))
    return [task.model_copy(update={"adjusted": float(one)}) for task, one in zip(tasks, p, strict=True)]


def _adjusted_together(ended: list[End], long: list[Lengths]) -> tuple[list[End], list[Lengths]]:
    """Holm over all endings and lengths. Where no pair differs there is no test: no outcome of it could be an alarm."""
    p = iter(holm(np.array([*(end.p for end in ended if end.p is not None), *(one.p for one in long)])))
    new_ends = [end if end.p is None else end.model_copy(update={"adjusted": float(next(p))}) for end in ended]
    return new_ends, [one.model_copy(update={"adjusted": float(next(p))}) for one in long]


def _sound(checks: list[Check]) -> bool:
    return all(one.verdict is not Verdict.INVALID for one in checks)


def _complete(arms: tuple[Arm, ...], found: list[Evidence]) -> Check:
    """Where the specialized arm has failed already, what it lacks is no matter. ``found``: none of records that are no proof."""
    whole = comparability.complete(arms[:-1])
    last = comparability.complete(arms[-1:])
    if whole.findings or arms[-1].objections or not last.findings or not stopping.stops(found):
        return check("complete", whole.detail, [*whole.findings, *last.findings])
    text = f"{arms[-1].manifest.name} lacks responses, and fails without them: {stopping.says(found)}"
    return check("complete", whole.detail, [Finding(verdict=Verdict.FAIL, text=text)])


def _scored(name: str, task: Task | None) -> Check:
    """One task's verdict."""
    if task is None:
        lacking = Finding(verdict=Verdict.INVALID, text="fewer than two items have a score in both arms", scene=name)
        return check(f"score of {name}", "nothing", [lacking])
    detail = f"{task.items} items x {task.repeats}: {task.metric} {task.says}"
    if task.verdict is None:
        return Check(name=f"score of {name}", verdict=None, detail=f"not judged, as the records are no proof: {detail}")
    found = []
    if task.verdict is Verdict.FAIL:
        found = [Finding(verdict=Verdict.FAIL, text=f"{task.metric} {task.says}: the loss is beyond the margin", scene=name)]
    elif task.verdict is Verdict.INCONCLUSIVE:
        found = [Finding(verdict=Verdict.INCONCLUSIVE, text=f"{task.metric} {task.says}: {_undecided(task)}", scene=name)]
    return check(f"score of {name}", detail, found)


def _undecided(task: Task) -> str:
    if task.low > -task.margin:
        return (
            f"errors of the specialized arm alone, {task.lost:.2%} of the pairs, might hide a loss; resume it to ask them again"
        )
    if task.repeats_needed is None:
        return f"not decided by {task.repeats} repeats, and if this difference stays, not by more of these items"
    more = task.repeats_needed - task.repeats
    return f"not decided; {task.repeats_needed} repeats in all would decide it if this difference stays: {more} more"


def _ends(ended: list[End], proof: bool) -> Check:
    if not proof:
        return Check(name="ends", verdict=None, detail="not judged, as the records are no proof")
    found = [
        Finding(verdict=Verdict.FAIL, text=f"{_growth(end)}: beyond the task's margin", scene=end.task)
        for end in ended
        if end.verdict is Verdict.FAIL
    ]
    judged = sum(end.verdict is not None for end in ended)
    return check("ends", f"{judged} rates of endings that differ, in {len({end.task for end in ended})} tasks", found)


def _again(again: Arm | None, tasks: list[Task]) -> Check:
    if again is None:
        return Check(
            name="A/A", verdict=None, detail="no default-again arm: how far the default path differs from itself is not known"
        )
    found, said = [], []
    for task in tasks:
        if task.again is not None:
            value, low, high = task.again
            text = f"{points(value)} points ({points(low)} to {points(high)})"
            said.append(f"{task.name} {text}")
            if low > task.margin or high < -task.margin:
                why = f"the default path differs from itself by {text}, margin {100 * task.margin:g}"
                found.append(Finding(verdict=Verdict.INVALID, text=why, scene=task.name))
    return check("A/A", "; ".join(said) or "nothing", found)


def _alarming(test: Task | End | Lengths) -> bool:
    return test.adjusted is not None and test.adjusted < ALPHA


def _lower(task: Task) -> str:
    return f"{task.name}: {task.metric} is lower, p {task.adjusted:.2g} adjusted for all tasks ({task.test}): {task.says}"


def _grown(end: End) -> str:
    return f"{end.task}: {_growth(end)}, p {end.adjusted:.2g} adjusted for all endings and lengths"


def _growth(end: End) -> str:
    assert end.low is not None
    assert end.high is not None
    rise = f"growth {points(end.low)} to {points(end.high)} points"
    return f"{end.name} {end.specialized} of {end.asked} against {end.default}, {rise}"


def _long(one: Lengths) -> str:
    of = f"{one.ratio:.3f} times as long ({one.low:.3f} to {one.high:.3f})"
    return f"{one.task}: responses are {of}, p {one.adjusted:.2g} adjusted for all endings and lengths"


def _comparison(paths: list[Path], manifests: Sequence[EvalManifest], checks: list[Check], **figures: object) -> Comparison:
    verdict = worst(c.verdict for c in checks if c.verdict is not None)
    of = {"folders": [str(path) for path in paths], "records": [seal.known(path) for path in paths], "arms": list(manifests)}
    fields = of | {"checks": checks} | provenance.code("evals") | figures
    return Comparison.model_validate({"verdict": verdict, "exit_code": verdict.exit_code} | fields)
