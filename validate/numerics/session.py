"""One run from arguments to an exit code: plan, record, judge, report."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from validate import profiles
from validate.errors import InputError
from validate.numerics import judge, junit, runner, selection, subjects
from validate.numerics.case import Case
from validate.numerics.display import Display
from validate.numerics.plan import Plan, Task, tasks
from validate.paths import group
from validate.processes import python
from validate.profiles import Profile
from validate.records import folder as records
from validate.records import provenance
from validate.records.model import Arguments, Line, Manifest, NotRun, verdict_of
from validate.report import failures, summary
from validate.verdict import Verdict

INTERRUPTED = 130  # the shell's exit code for Ctrl-C
PER_GPU = 8  # workers: the process beside each holds a context, and compiles; 16 were measured on one H200 (golden/hopper)
SHOWN = 10  # failing cases printed at the end; summary.md has more


Way = Callable[[Plan, Mapping[str, Case], runner.Receive], bool]


@dataclass
class Session:
    """A run under way: its folder, its manifest, and the lines recorded so far."""

    folder: Path
    manifest: Manifest
    cases: list[Case]
    workers: int
    out: Console
    lines: list[Line]
    began: float

    def plan(self, wanted: Sequence[Task]) -> Plan:
        """These tasks with all that a worker must know."""
        arguments = self.manifest.arguments
        return Plan(profile=self.manifest.profile, planted=arguments.planted, vllm_src=arguments.vllm_src, tasks=tuple(wanted))

    def run(self, wanted: Sequence[Task], way: Way | None = None) -> bool:
        """Judges the tasks that are not recorded yet, in worker processes or another way; False if Ctrl-C ended it."""
        known = {(line.case, line.subject) for line in self.lines}
        plan = self.plan(wanted)
        left = [task for task in wanted if any((task.case, s.name) not in known for s in plan.subjects(task))]
        # A task that was recorded in part is run as a whole: its earlier lines give way.
        again = {(task.case, subject.name) for task in left for subject in plan.subjects(task)}
        self.lines = [line for line in self.lines if (line.case, line.subject) not in again]
        records.write_lines(self.folder / records.MEASUREMENTS, self.lines)
        with Display(self.out, wanted, self.lines) as display:

            def receive(lines: list[Line]) -> None:
                records.append(self.folder / records.MEASUREMENTS, lines)
                self.lines += lines
                display.add(lines)

            plan, cases = plan.model_copy(update={"tasks": tuple(left)}), {case.id: case for case in self.cases}
            return way(plan, cases, receive) if way else runner.run(plan, cases, self.workers, receive)

    def close(self, verdict: Verdict, exit_code: int, not_run: Iterable[NotRun], *, ended: bool) -> None:
        """Puts the lines into the plan's order and writes how it ended."""
        place = {case.id: n for n, case in enumerate(self.cases)}
        self.lines.sort(key=lambda line: place[line.case])
        records.write_lines(self.folder / records.MEASUREMENTS, self.lines)
        update = {"not_run": tuple(not_run), "seconds": round(time.monotonic() - self.began, 1)}
        if ended:
            update |= {"end": records.now(), "verdict": verdict, "exit_code": exit_code}
        self.manifest = self.manifest.model_copy(update=update)
        records.write_manifest(self.folder, self.manifest)


def start(arguments: Arguments, profile: Profile, output: Path, workers: int | None, out: Console) -> Session:
    """A new run with its folder. Bad arguments raise InputError before a folder is made."""
    if group.size() > 1:
        raise InputError("started as one of several processes: they add to a run that was started alone, named by --resume")
    made = subjects.make(profile, arguments.planted, arguments.vllm_src)
    cases = _cases(arguments, profile)
    planted = arguments.planted
    if planted and planted.split(".")[0] not in {case.stage for case in cases}:
        raise InputError(f"no selected case runs the stage of the planted fault {planted}: it would pass unseen")
    manifest = Manifest(
        arguments=arguments,
        profile=profile,
        runs_on=profile.runs_on,
        subjects=tuple(subject.name for subject in made),
        stages=tuple(dict.fromkeys(case.stage for case in cases)),
        planned=len(cases),
        vllm=subjects.vllm_files(made),
        **provenance.made(),
    )
    folder = records.create(output, profile.name)
    records.write_lines(folder / records.MEASUREMENTS, [])
    records.write_manifest(folder, manifest)
    return Session(folder, manifest, cases, workers or _workers(manifest), out, [], time.monotonic())


def resume(folder: Path, workers: int | None, out: Console, *, keep_errors: bool = False) -> Session:
    """An earlier run, to be continued. Its folder stays as it is until ``Session.run``.

    Lines that an error or a crash left are measured again by as many processes as before; ``keep_errors``: by none.
    """
    manifest = records.read_manifest(folder)
    made = subjects.make(manifest.profile, manifest.arguments.planted, manifest.arguments.vllm_src)
    for what, then, now in (
        ("source", manifest.source, provenance.source()),
        ("versions", manifest.versions, provenance.versions()),
        ("files of vLLM", manifest.vllm, subjects.vllm_files(made)),
    ):
        if then != now:
            raise InputError(f"cannot resume {folder}: the {what} differ, {then} then and {now} now; start a new run")
    ranks = group.size() if group.size() > 1 else None
    recorded = records.read_lines(folder, mend=True)
    lines = [line for line in recorded if line.error is None or line.ranks != ranks or keep_errors]
    cases = _cases(manifest.arguments, manifest.profile)
    began = time.monotonic() - (manifest.seconds or 0)
    return Session(folder, manifest, cases, workers or _workers(manifest), out, lines, began)


def _workers(manifest: Manifest) -> int:
    """One a core; on GPUs few enough that their contexts and kernels do not wait for each other."""
    gpus = len(manifest.machine.gpus)
    return min(manifest.machine.cores, PER_GPU * gpus) if manifest.runs_on != "emulated" and gpus else manifest.machine.cores


def profile_of(name: str, seeds: int | None) -> Profile:
    """The profile, with another number of seeds if asked for."""
    profile = profiles.load(name)
    return profile if seeds is None else profile.model_copy(update={"seeds": seeds})


def numerics(session: Session) -> int:
    """Judges every case and writes the reports. Returns the exit code."""
    finished = session.run(tasks(session.cases))
    verdict = verdict_of(session.lines, session.manifest.planned, session.manifest.runs_on)
    session.close(verdict, verdict.exit_code, _not_run(session), ended=finished)
    records.write(session.folder, "junit.xml", junit.render(session.manifest, session.lines))
    records.write(session.folder, "summary.md", summary.render(session.manifest, session.lines))
    out = session.out
    bad = failures.not_passed(session.lines)
    for line in bad[:SHOWN]:
        out.print(failures.describe(session.manifest, line), markup=False, soft_wrap=True)
    if len(bad) > SHOWN:
        out.print(f"{len(bad) - SHOWN} more in {session.folder}/summary.md", soft_wrap=True)
    if not finished:
        return interrupted(session)
    ran = session.manifest.runs_on
    judged = len({line.case for line in session.lines if line.judged})
    count = f"{judged} of {session.manifest.planned} cases judged"
    out.print(f"{verdict}  {count}, {ran}; record: {session.folder}", soft_wrap=True)
    return verdict.exit_code


def interrupted(session: Session) -> int:
    """Says what was kept and how to go on."""
    session.out.print(f"interrupted; what was measured is kept in {session.folder}", soft_wrap=True)
    session.out.print(f"resume: {python()} -m validate numerics --resume {session.folder}", soft_wrap=True)
    return INTERRUPTED


def _cases(arguments: Arguments, profile: Profile) -> list[Case]:
    keyword = arguments.keyword if arguments.mode != "faults" else None
    return selection.select(judge.cases(profile), keyword)


def _not_run(session: Session) -> list[NotRun]:
    """Everything that a reader might think was checked, but was not."""
    found = []
    manifest = session.manifest
    left = manifest.planned - len({line.case for line in session.lines})
    if left:
        found.append(NotRun(what=f"{left} planned cases", why="the run was interrupted"))
    stages = [stage for stage in judge.STAGES if stage not in manifest.stages]
    if stages:
        why = f"-k {manifest.arguments.keyword}" if manifest.arguments.keyword else f"not in profile {manifest.profile.name}"
        found.append(NotRun(what=f"stages {', '.join(stages)}", why=why))
    elif manifest.arguments.keyword:
        found.append(NotRun(what="cases that the keyword leaves out", why=f"-k {manifest.arguments.keyword}"))
    reasons: dict[tuple[str, str, str], int] = {}
    for line in session.lines:
        if line.missing is not None:
            key = (line.subject, line.stage, line.missing)
            reasons[key] = reasons.get(key, 0) + 1
    found += [NotRun(what=f"{s} on {n} cases of {stage}", why=why) for (s, stage, why), n in reasons.items()]
    ran = {manifest.runs_on} | {name.partition("-")[0] for name in manifest.subjects}
    others = [kind for kind in ("emulated", "hopper", "gb300") if kind not in ran]
    why = f"profile {manifest.profile.name} runs {manifest.runs_on} subjects"
    found.append(NotRun(what=" and ".join(others), why=why))
    return found
