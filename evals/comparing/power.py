"""What a comparison will find, said before the specialized arm is run: from the default arm and the A/A arm, by simulation.

Both arms' answers to an item are drawn from what the default path answered to it in its two arms. These few do not have the
spread of the item's own distribution (two answers of which one is right say little of the rate), so further answers are drawn
from Polya's urn: from what the item has answered, what was drawn before included, or with the weight of ``prior`` answers from
all items' answers (D. Blackwell and J. B. MacQueen, "Ferguson distributions via Polya urn schemes", Annals of Statistics 1
(1973)). Of scores 0 or 1 that is a beta distribution of the items' rates; ``prior`` = 1 / rho - 1, rho being the correlation of
two answers to one item, from the variance within items and of all. The specialized arm then loses answers: a share of them,
drawn at random, scores 0.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from evals.comparing.comparability import same_engine
from evals.comparing.reading import Items, read
from evals.records import folder
from evals.records.model import TaskPlan
from validate.errors import InputError
from validate.records.arm import SPECIALIZED
from validate.stats.noninferiority import difference
from validate.verdict import Verdict

Array = NDArray[np.float64]
Scores = NDArray[np.floating]
TRIALS = 500  # shares of 80 % are known to two points
ANSWERS = 20_000_000  # drawn in all: of a task with many, fewer trials say as much
STEPS = 21
WANTED = 0.8
RHO = (0.001, 0.999)  # an urn has a prior, and items that all answer alike have one answer more each


@dataclass(frozen=True)
class Planned:
    """One task's. ``rho``: the correlation of two answers to an item. ``passes``: the probability of a PASS without any loss.

    ``unpassed`` and ``failed``: the smallest loss that does not pass, and that fails, with probability 80 %; None where no loss
    does. All are shares of 1.
    """

    plan: TaskPlan
    mean: float
    rho: float
    passes: float
    unpassed: float | None
    failed: float | None


def run(default: Path, again: Path, out: Console) -> int:
    """Prints a row a task, and the probability that all pass. InputError where the two are not two arms of the default path."""
    planned = plan(default, again)
    table = Table("task", "items x repeats", "mean", "rho", "margin", "PASS without loss", "80 % not passed at", "80 % failed at")
    for one in planned:
        of = one.plan
        losses = ("none" if loss is None else f"{100 * loss:.2f}" for loss in (one.unpassed, one.failed))
        figures = f"{100 * one.mean:.2f}", f"{one.rho:.2f}", f"{100 * of.margin:g}", f"{one.passes:.1%}"
        table.add_row(of.name, f"{of.items} x {of.repeats}", *figures, *losses)
    out.print(table)
    together = float(np.prod([one.passes for one in planned]))
    out.print(f"All {len(planned)} tasks pass with probability {together:.1%} where nothing is lost. Losses in points of 100.")
    return 0


def plan(default: Path, again: Path) -> list[Planned]:
    """Of every task of two recorded arms of the default path."""
    manifests = folder.manifest(default), folder.manifest(again)
    # The specialized arm that is to come: the same, but for the path.
    check = same_engine(manifests[0], manifests[1], manifests[0].model_copy(update={"decode_backend": SPECIALIZED}))
    if check.findings:
        raise InputError(f"{default} and {again} are no two arms of the default path: {check.findings[0].text}")
    items: dict[str, Items] = {}
    arms = [read(path, manifest, items) for path, manifest in zip((default, again), manifests, strict=True)]
    for arm in arms:
        if arm.objections:
            raise InputError(f"{arm.folder}: {arm.objections[0].line}")
    first, second = (arm.tasks for arm in arms)
    return [simulate(of, first[of.name].scores, second[of.name].scores) for of in manifests[0].tasks]


def simulate(of: TaskPlan, default: Scores, again: Scores, trials: int = TRIALS) -> Planned:
    """Of one task's scores [items, repeats] in both arms; NaN is no score.

    Raises:
        InputError: fewer than two items have two scores.
    """
    known = np.concatenate([default, again], axis=1).astype(np.float64)
    known = known[(~np.isnan(known)).sum(axis=1) >= 2]
    if len(known) < 2:
        raise InputError(f"{of.name}: fewer than two items have two scores in the arms; its power cannot be said")
    mean, rho = float(np.nanmean(known)), correlation(known)
    trials = max(100, min(trials, ANSWERS // (2 * len(known) * of.repeats)))
    draws = np.random.default_rng(0)
    losses = _losses(known, of, mean)
    found: dict[Verdict, Array] = {verdict: np.zeros(len(losses)) for verdict in Verdict}
    for _ in range(trials):
        answers = urn(known, 1 / rho - 1, 2 * of.repeats, draws)
        first, second = answers[:, : of.repeats], answers[:, of.repeats :]
        at = draws.random(second.shape) * mean  # a greater loss takes the same answers away and more
        for place, loss in enumerate(losses):
            found[difference(first, second * (at >= loss)).verdict(of.margin)][place] += 1 / trials
    passes = found[Verdict.PASS]
    return Planned(of, mean, rho, float(passes[0]), _smallest(losses, 1 - passes), _smallest(losses, found[Verdict.FAIL]))


def correlation(known: Scores) -> float:
    """Of two scores of one item [items, two and more], NaN being none: 1 - variance within items / variance of all scores."""
    count = (~np.isnan(known)).sum(axis=1)
    within = float((np.nanvar(known, axis=1) * count / (count - 1)).mean())
    every = float(np.nanvar(known))
    return float(np.clip(1 - within / every, *RHO)) if every else RHO[1]


def urn(known: Scores, prior: float, answers: int, draws: np.random.Generator) -> Array:
    """Further ``answers`` [items, answers], exchangeable with each item's ``known`` ones [items, any], of which NaN is none."""
    items, width = known.shape
    every = known[~np.isnan(known)]
    count = (~np.isnan(known)).sum(axis=1)
    held = np.full((items, width + answers), np.nan)
    held[:, :width] = np.take_along_axis(known, np.argsort(np.isnan(known), axis=1, kind="stable"), axis=1)
    rows = np.arange(items)
    for drawn in range(answers):
        total = count + drawn
        own = held[rows, (draws.random(items) * total).astype(int)]
        new = draws.random(items) * (prior + total) < prior
        held[rows, total] = np.where(new, draws.choice(every, items), own)
    return held[rows[:, None], count[:, None] + np.arange(answers)]


def _losses(known: Scores, of: TaskPlan, mean: float) -> Array:
    """From 0 to well beyond what the spread of answers within items says is failed: margin + (1.645 + 0.842) standard errors."""
    count = (~np.isnan(known)).sum(axis=1)
    within = float((np.nanvar(known, axis=1) * count / (count - 1)).mean())
    error = (2 * within / (len(known) * of.repeats)) ** 0.5
    return np.linspace(0.0, min(mean, 2 * of.margin + 4 * error), STEPS)


def _smallest(losses: Array, shares: Array) -> float | None:
    """Where the share reaches WANTED, between two losses in proportion; None where it does not."""
    reached = np.flatnonzero(shares >= WANTED)
    if not len(reached):
        return None
    at = reached[0]
    if at == 0:
        return float(losses[0])
    part = (WANTED - shares[at - 1]) / (shares[at] - shares[at - 1])
    return float(losses[at - 1] + part * (losses[at] - losses[at - 1]))
