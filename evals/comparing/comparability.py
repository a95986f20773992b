"""Whether arms of evals may be compared at all: one engine but for ``decode_backend``, asked the same, all answered, attested."""

from collections.abc import Iterator

import numpy as np

from evals.comparing.reading import ERROR, UNSEEN, Arm
from evals.records import folder
from evals.records.model import EvalManifest, TaskPlan
from validate.equivalence.compare import attestation
from validate.equivalence.compare.comparability import apart, engines_apart
from validate.equivalence.compare.finding import Check, Finding, check
from validate.records.arm import SPECIALIZED, Steps
from validate.verdict import Verdict

# What may differ; a planted arm is named as such in every report. Whether there are servers must agree, and what machines they
# are but for the memory that their firmware leaves.
MAY_DIFFER = {"name", "decode_backend", "start", "end", "planted", "served", "machine", "tasks"}
# Of the pairs of a task. Which they are may hang on the arm (an engine that dies of long answers), so they must be few.
ERRORS = 0.01


def same_engine(default: EvalManifest, again: EvalManifest | None, specialized: EvalManifest) -> Check:
    """INVALID with one finding for each difference that must not be, and for what was planned so that nothing follows from it."""
    lines = list(_differences(default, specialized))
    if again is not None:
        lines += _differences(default, again)
        if again.name == default.name:
            lines.append(f"name: {default.name} and {again.name}, whose seeds are the same: what sampling does is not seen")
        if again.decode_backend != default.decode_backend:
            lines.append(f"decode_backend: {default.name} has {default.decode_backend}, {again.name} has {again.decode_backend}")
    if specialized.decode_backend != SPECIALIZED:
        lines.append(f"decode_backend: {specialized.name} has {specialized.decode_backend}, not {SPECIALIZED}")
    if default.decode_backend == SPECIALIZED:
        lines.append(f"decode_backend: {default.name} has {SPECIALIZED}, too")
    lines += [line for plan in default.tasks for line in _of_plan(plan)]
    if len({plan.name for plan in default.tasks}) < len(default.tasks) or not default.tasks:
        lines.append("tasks: none, or one twice")
    names = ", ".join(f"{m.name} ({m.decode_backend})" for m in (default, again, specialized) if m is not None)
    return check("same engine", names, (Finding(verdict=Verdict.INVALID, text=line) for line in lines))


def complete(arms: tuple[Arm, ...]) -> Check:
    """INVALID for an arm that has no end or lacks responses, and for each kind of response that was not to be."""
    found = [finding for arm in arms for finding in (*_ended(arm), *arm.objections)]
    for arm in arms:
        for task, responses in arm.tasks.items():
            missing = int((responses.outcomes == UNSEEN).sum())
            if missing:
                text = f"{arm.manifest.name}: {missing} of {responses.outcomes.size} responses are missing; resume it"
                found.append(Finding(verdict=Verdict.INVALID, text=text, scene=task))
    manifest = arms[0].manifest
    detail = f"{manifest.planned} responses of {len(manifest.tasks)} tasks in each arm"
    left_out = (
        f"{plan.name} {len(plan.left_out)} of {plan.items + len(plan.left_out)}" for plan in manifest.tasks if plan.left_out
    )
    if named := ", ".join(left_out):
        detail += f"; items not asked, being longer than the window: {named}"
    return check("complete", detail, found)


def attested(default: Arm, again: Arm | None, specialized: Arm) -> Check:
    """INVALID unless each task's decode steps ran specialized, up to the share that the arm may miss, and no default arm's did.

    By task: one with many steps must not vouch for another. Requests with NaN logits are FAIL. A task that was not asked, as the
    run was stopped, has nothing to prove.
    """
    steps, manifest = folder.steps(specialized.folder), specialized.manifest
    if steps is None:
        findings = list(attestation.of_specialized(manifest.name, None, (), manifest.minimum))
    else:
        findings = [f for task in specialized.tasks if specialized.asked(task) for f in _of_task(manifest, task, steps)]
    for arm in (default, again):
        if arm is not None:
            own = folder.steps(arm.folder)
            findings += [*attestation.of_default(arm.manifest.name, own)]
            findings += attestation.sound(arm.manifest.name, own, arm.manifest.environment)
    findings += attestation.sound(manifest.name, steps, manifest.environment)
    detail = "no account of the specialized arm's steps"
    if steps is not None:
        ran, total = steps.share(specialized.tasks)
        detail = f"{ran} of {total} decode and verify steps ran specialized ({steps.source})"
    return check("attestation", detail, findings)


def errors(default: Arm, specialized: Arm) -> Check:
    """INVALID where more than the share ERRORS of a task's pairs have an error in either arm.

    What took several attempts is counted, and judges nothing: a server that was started anew does that.
    """
    found, counts = [], []
    for task, responses in default.tasks.items():
        failed = [arm.tasks[task].outcomes == ERROR for arm in (default, specialized)]
        pairs = int((failed[0] | failed[1]).sum())
        if pairs:
            counts.append(f"{task}: {int(failed[0].sum())} in {default.manifest.name}, {int(failed[1].sum())} in the other")
        if pairs > ERRORS * responses.outcomes.size:
            text = (
                f"{pairs} of {responses.outcomes.size} pairs have an error in either arm, {ERRORS:.0%} allowed; resume the runs"
            )
            found.append(Finding(verdict=Verdict.INVALID, text=text, scene=task))
        if any(retried := [int(arm.tasks[task].retried.sum()) for arm in (default, specialized)]):
            counts.append(f"{task}: asked more than once {retried[0]} in {default.manifest.name}, {retried[1]} in the other")
    return check("errors", "; ".join(counts) or "none", found)


def lost(default: Arm, specialized: Arm, task: str) -> float:
    """The share of a task's pairs with an error in the specialized arm alone: the loss that they may hide."""
    ours, theirs = specialized.tasks[task].outcomes == ERROR, default.tasks[task].outcomes == ERROR
    return float(np.mean(ours & ~theirs))


def _of_task(manifest: EvalManifest, task: str, steps: Steps) -> Iterator[Finding]:
    for finding in attestation.of_specialized(manifest.name, steps, (task,), manifest.minimum):
        yield finding.model_copy(update={"scene": task})


def _ended(arm: Arm) -> Iterator[Finding]:
    if arm.manifest.end is None:
        yield Finding(verdict=Verdict.INVALID, text=f"{arm.manifest.name}: the run has no end; resume it")


def _differences(first: EvalManifest, second: EvalManifest) -> Iterator[str]:
    names = f"{first.name} has", f"{second.name} has"
    yield from apart("tasks", [plan.name for plan in first.tasks], [plan.name for plan in second.tasks], names)
    others = {plan.name: plan for plan in second.tasks}
    for plan in first.tasks:
        if plan.name in others:
            yield from apart(f"tasks.{plan.name}", plan.model_dump(), others[plan.name].model_dump(), names)
    yield from engines_apart(first, second, MAY_DIFFER)


def _of_plan(plan: TaskPlan) -> Iterator[str]:
    if plan.items < 2 or plan.repeats < 1:
        yield f"tasks.{plan.name}: {plan.items} items, {plan.repeats} repeats: two items and one repeat of each at least"
    if not 0.0 < plan.margin < 1.0:
        yield f"tasks.{plan.name}.margin: {plan.margin} is no share between 0 and 1"
