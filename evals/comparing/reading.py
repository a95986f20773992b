"""The responses of an arm, read one at a time into arrays by task: what is kept of one is 11 bytes, and 4 of its prompt."""

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evals.grading.response import Outcome
from evals.records import folder
from evals.records.model import Answered, EvalManifest, TaskPlan
from validate.equivalence.compare.finding import Finding
from validate.errors import InputError
from validate.verdict import Verdict

OUTCOMES = tuple(Outcome)
PLACES = {outcome: place for place, outcome in enumerate(OUTCOMES)}
ERROR, SCORED = PLACES[Outcome.ERROR], PLACES[Outcome.SCORED]
UNSEEN = 255  # among outcomes: there is no response
MOST = 20_000_000  # responses of one arm: 220 MB, and 80 MB of prompts


@dataclass
class Items:
    """The items of one task, alike for all arms: the row of each in the arrays, and what it is grouped by.

    ``prompts`` [items, repeats]: tokens of the prompts, 0 where no arm says it.
    """

    prompts: NDArray[np.int32]
    rows: dict[str, int] = field(default_factory=dict)
    strata: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Responses:
    """Of one task in one arm, arrays of [items, repeats].

    ``scores``: of the primary metric, NaN where there is no answer, that is an error or no response. ``outcomes``: places in
    :data:`OUTCOMES`, or UNSEEN. ``tokens`` were generated; ``loops``: the response ends in one; ``retried``: it took
    several attempts.
    """

    scores: NDArray[np.float32]
    outcomes: NDArray[np.uint8]
    tokens: NDArray[np.int32]
    loops: NDArray[np.bool_]
    retried: NDArray[np.bool_]


@dataclass(frozen=True)
class Arm:
    """A recorded arm. ``objections`` are INVALID, one a kind and task; responses that are missing are none of them."""

    folder: Path
    manifest: EvalManifest
    tasks: dict[str, Responses]
    objections: tuple[Finding, ...]

    def asked(self, task: str) -> bool:
        """Whether there is any response of a task."""
        return bool((self.tasks[task].outcomes != UNSEEN).any())


def read(path: Path, manifest: EvalManifest, items: dict[str, Items]) -> Arm:
    """All responses of an arm; ``items`` by task are those of the arms before, and get those that are new.

    Where an error was asked again, the later response counts. InputError for a damaged record.
    """
    made = empty(path, manifest)
    firsts: dict[tuple[str, str], str] = {}  # by task and what is wrong
    counts: Counter[tuple[str, str]] = Counter()
    for answered in folder.responses(path):
        why = take(answered, made, items)
        if why:
            firsts.setdefault((answered.task, why), f"item {answered.item}, repeat {answered.repeat}")
            counts[answered.task, why] += 1
    objections = [
        Finding(verdict=Verdict.INVALID, text=f"{manifest.name}: {why}: {counts[task, why]}, the first {first}", scene=task)
        for (task, why), first in firsts.items()
    ]
    return replace(made, objections=tuple(objections))


def empty(path: Path, manifest: EvalManifest) -> Arm:
    """An arm of which no response is known yet. InputError if it is too large."""
    if manifest.planned > MOST:
        raise InputError(f"{path}: {manifest.planned} responses planned; at most {MOST} can be compared at once")
    return Arm(path, manifest, {plan.name: _empty(plan) for plan in manifest.tasks}, ())


def _empty(plan: TaskPlan) -> Responses:
    shape = (plan.items, plan.repeats)
    return Responses(
        np.full(shape, np.nan, np.float32),
        np.full(shape, UNSEEN, np.uint8),
        np.zeros(shape, np.int32),
        np.zeros(shape, bool),
        np.zeros(shape, bool),
    )


def take(answered: Answered, arm: Arm, items: dict[str, Items]) -> str:
    """Puts a response in its place; says what is wrong with it, "" if nothing is."""
    plan = next((plan for plan in arm.manifest.tasks if plan.name == answered.task), None)
    if plan is None:
        return "a task that was not planned"
    of_task = items.get(plan.name) or items.setdefault(plan.name, Items(np.zeros((plan.items, plan.repeats), np.int32)))
    row = of_task.rows.get(answered.item)
    if row is None:
        row = len(of_task.rows)
        if row == plan.items:
            return f"an item beyond the {plan.items} that were planned"
        of_task.rows[answered.item] = row
        of_task.strata.append(answered.stratum)
    repeat, into = answered.repeat, arm.tasks[plan.name]
    if not 0 <= repeat < plan.repeats:
        return f"a repeat beyond the {plan.repeats} that were planned"
    if into.outcomes[row, repeat] not in (UNSEEN, ERROR):
        return "a second response to one request"
    if answered.stratum != of_task.strata[row]:
        return "an item of two strata"
    score, outcome = answered.scores.get(plan.metric), PLACES[answered.outcome]
    if score is None:
        return f"no score named {plan.metric}"
    if not 0.0 <= score <= 1.0 or (score and outcome != SCORED):
        return "a score that cannot be"
    if not 0 <= answered.tokens < 2**31 or not 0 <= answered.prompt_tokens < 2**31:
        return "a number of tokens that cannot be"
    if outcome == SCORED and not answered.tokens:
        return "an answer of no tokens"
    if answered.prompt_tokens and of_task.prompts[row, repeat] not in (0, answered.prompt_tokens):
        return "a prompt that is longer or shorter than in an arm before"
    of_task.prompts[row, repeat] = answered.prompt_tokens or of_task.prompts[row, repeat]
    into.outcomes[row, repeat] = outcome
    into.scores[row, repeat] = np.nan if outcome == ERROR else score
    into.tokens[row, repeat] = answered.tokens
    into.loops[row, repeat] = answered.loop
    into.retried[row, repeat] = answered.attempts > 1
    return ""
