"""Records one arm of a suite: all of it, or what is left."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from evals.grading.response import Outcome
from evals.records import folder as records
from evals.records.model import EvalManifest
from evals.running.asking import Asker
from evals.running.in_process import InProcess
from evals.running.planning import Planned, fitting, manager, planned
from evals.running.progress import Progress
from evals.running.recording import Recording
from evals.running.servers import Servers
from evals.running.suite import Suite
from evals.running.watching import Stopped, Watch
from evals.tasks import window
from validate.equivalence import attestation
from validate.equivalence.arm import BACKENDS, ArmSet, Name
from validate.equivalence.compare.comparability import apart
from validate.equivalence.engine import Lost
from validate.equivalence.identity import served
from validate.equivalence.record import plantable
from validate.errors import InputError
from validate.records import provenance, writer
from validate.records.arm import NANS, Steps
from validate.records.folder import MANIFEST, now
from validate.verdict import Verdict

# Where a record goes on.
SAME = (
    "suite",
    "engine",
    "minimum",
    "model",
    "decode_backend",
    "planted",
    "source",
    "tasks",
    "concurrency",
    "environment",
    "versions",
    "serves",
)


@dataclass(frozen=True)
class Asked:
    """One arm of a run. ``file``: the suite as it was named; ``there``: the arm's own folder; ``again``: how to go on.

    ``default``: the default arm's folder, beside which the arm is stopped where it has failed already.
    """

    file: str
    suite: Suite
    name: Name
    there: Path
    again: str
    urls: tuple[str, ...] = ()
    keyword: str | None = None
    data: Path | None = None
    plant: str | None = None
    default: Path | None = None


def record(asked: Asked, out: Console, running: Asker | None = None) -> int:
    """Records what is left. Exit code 0, or 3 with a line for each thing that a comparison would refuse.

    ``running``: the arm's engine, where there is one already; it is left running.
    """
    arms = asked.suite.arm_set()
    plantable(asked.plant, arms, asked.name, asked.urls)
    tasks = planned(asked.suite, asked.keyword, asked.data, again=asked.name == "default-again")
    os.environ.update(arms.environment)  # OMP_NUM_THREADS, say: torch, whoever imports it first, reads it then
    asker = running or _asker(asked, arms)
    try:
        tasks = [fitting(one, asker.count, arms.engine["max_model_len"]) for one in tasks]
        manifest = _manifest(asked, arms, tasks, asker)
        records.begin(asked.there)
        with writer.alone(asked.there):
            current = _recording(asked, manifest, tasks, out)
            if asked.default is not None:
                current.watch = Watch(asked.default, asked.there)
            return _recorded(asked, current, tasks, asker, arms, out)
    finally:
        if asker is not running:
            asker.close()


def ended(there: Path) -> bool:
    """Whether an arm is recorded to its end."""
    return (there / MANIFEST).is_file() and records.manifest(there).end is not None


def complete(there: Path) -> bool:
    """Whether nothing of an arm is left to ask: errors are asked again."""
    return ended(there) and all(one.outcome is not Outcome.ERROR for one in records.responses(there))


def _asker(asked: Asked, arms: ArmSet) -> Asker:
    if asked.urls:
        return Servers(asked.urls, arms, asked.suite.concurrency)
    return InProcess(arms, asked.name, asked.plant, asked.suite.concurrency)


def _recording(asked: Asked, manifest: EvalManifest, tasks: list[Planned], out: Console) -> Recording:
    steps, scored, there = Steps(source="no task has run", by_scene={}), {}, asked.there
    if (there / MANIFEST).is_file():  # begun
        earlier = records.manifest(there)
        old, new = _by_name(earlier), _by_name(manifest)
        same = SAME if asked.urls else (*SAME, "machine")
        lines = [line for name in same for line in apart(name, old[name], new[name], ("it was begun with", "now there is"))]
        if lines:
            raise InputError(f"cannot resume {there}: {'; '.join(lines)}")
        records.mend(there)
        records.drop(there, lambda one: one.outcome is Outcome.ERROR)  # they are asked again
        scored = {one.key: dict(one.scores) for one in records.responses(there)}
        steps = records.steps(there) or steps
        records.write_manifest(there, earlier.model_copy(update={"end": None}))
        out.print(f"resuming {there}: {len(scored)} of {manifest.planned} responses are recorded", markup=False, soft_wrap=True)
    else:
        records.write_manifest(there, manifest)
    progress = Progress(out, manifest.planned, len(scored))
    return Recording(there, {one.plan.name: one.plan for one in tasks}, steps, progress, scored)


def _by_name(manifest: EvalManifest) -> dict[str, Any]:
    tasks = {plan.name: plan.model_dump() for plan in manifest.tasks}
    return manifest.model_dump() | {"tasks": tasks, "machine": manifest.machine.kind}


def _recorded(asked: Asked, current: Recording, tasks: list[Planned], asker: Asker, arms: ArmSet, out: Console) -> int:
    from lm_eval.evaluator import simple_evaluate
    from lm_eval.loggers.evaluation_tracker import GeneralConfigTracker

    from evals.running import lm_eval_files
    from evals.running.model import Recorded

    tracker = GeneralConfigTracker()
    tracker.log_experiment_args("k3-parity", {"model": arms.model}, None, None, False)
    out.print(f"recording {asked.name} of {asked.suite.name} in {current.there}", markup=False, soft_wrap=True)
    for one in tasks:
        if said := window.line(one.plan.left_out, arms.engine["max_model_len"], one.plan.generation["max_gen_toks"]):
            out.print(f"{one.plan.name}: {said}", markup=False, soft_wrap=True)
    try:
        with current.progress:
            results = simple_evaluate(
                model=Recorded(current, asker, backwards=asked.name == "default-again"),
                tasks=[one.task for one in tasks],
                task_manager=manager({}),
                log_samples=False,
                bootstrap_iters=0,  # lm-eval's errors of scores take an item's repeats for so many items
            )
    except KeyboardInterrupt:
        out.print(f"interrupted; {_kept(current)}, go on with: {asked.again}", markup=False, soft_wrap=True)
        raise
    except (Lost, InputError) as error:
        raise InputError(f"{error}; {_kept(current)}, go on with: {asked.again}") from error
    except Stopped as stopped:
        out.print(f"{asked.name} has failed and is not asked further: {stopped}", markup=False, soft_wrap=True)
    else:
        assert results is not None
        lm_eval_files.write_files(current.there, dict(results), tasks, tracker)
    manifest = records.manifest(current.there)
    records.write_manifest(current.there, manifest.model_copy(update={"end": now()}))
    found = objections(asked.name, arms.minimum_specialized, current, manifest.environment.get(NANS, "0") != "0")
    for line in found:
        out.print(f"INVALID {line}", markup=False, soft_wrap=True)
    specialized, total = current.steps.share(current.plans)
    out.print(
        f"{len(current.scored)} responses recorded, {current.errors} of them errors; {specialized} of {total} decode steps ran "
        "specialized",
        soft_wrap=True,
    )
    return Verdict.INVALID.exit_code if found else 0


def objections(name: Name, minimum: float, current: Recording, counts_nans: bool) -> list[str]:
    """Why the record proves nothing, a line each; every task that was asked needs its own proof."""
    found = []
    for task in {task: None for task, *_ in current.scored}:
        of = current.steps.model_copy(update={"by_scene": {task: current.steps.by_scene.get(task, ())}})
        lines = attestation.unproven(name, minimum, of, of.share([task]), "task")
        found += [f"{task}: {line}" for line in lines]
    return found + attestation.unsound(current.steps, counts_nans)


def _kept(current: Recording) -> str:
    return f"{len(current.scored)} responses are kept"


def _manifest(asked: Asked, arms: ArmSet, tasks: list[Planned], asker: Asker) -> EvalManifest:
    versions = {name: provenance.version(name) for name in ("lm-eval", "datasets")} | {"vllm": asker.version()}
    identities = asker.identities()
    found = next(iter(identities.values()))
    if asked.urls:
        found = served(identities, arms.arguments(asked.name), arms.environment)
    return EvalManifest(
        name=asked.name,
        suite=asked.file,
        decode_backend=BACKENDS[asked.name],
        stand_in=arms.stand_in,
        engine=arms.engine | {"model": arms.model},
        minimum=arms.minimum_specialized,
        model=found.weights,
        tasks=tuple(one.plan for one in tasks),
        concurrency=asked.suite.concurrency,
        planted=asked.plant,
        served=asked.urls,
        serves=asker.serves,
        environment=found.environment,
        **provenance.made("evals", **versions) | {"machine": found.machine},
    )
