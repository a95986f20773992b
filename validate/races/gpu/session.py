"""A run of the races on a GPU from arguments to an exit code: every trial is recorded when it ends."""

import hashlib
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from validate.equivalence.compare import junit
from validate.equivalence.compare.finding import Check, Finding
from validate.errors import InputError
from validate.paths.vllm import entries
from validate.processes import python
from validate.races.gpu import children, judging, plan, sanitizer, summary
from validate.races.gpu.needs import gpu, opened
from validate.races.gpu.record import SANITIZED, TRIALS, Asked, Manifest, Sanitized, Tried, read
from validate.races.jobs import record
from validate.records import folder, provenance, writer
from validate.records.model import VllmFiles
from validate.report.console import COLOURS
from validate.verdict import Verdict, worst


def begin(vllm_src: Path | None, asked: Asked, output: Path) -> Path:
    """A new run's folder. InputError, before there is one, where it could not run."""
    there_is = gpu()
    files = opened(vllm_src)
    if asked.sanitize:
        sanitizer.found()
    version, vllm_commit = files.version()
    manifest = Manifest(
        asked=asked.model_copy(update={"vllm_src": str(files.root)}),
        planned=len(sanitizer.sessions(asked.keyword) if asked.sanitize else plan.chosen(asked.keyword)),
        gpu=there_is,
        vllm=VllmFiles(version=version, commit=vllm_commit, files=_digests(files.root)),
        **provenance.made(),
    )
    there = folder.create(output, "races-gpu")
    folder.write(there, SANITIZED if asked.sanitize else TRIALS, "")
    folder.write_manifest(there, manifest)
    return there


def run(there: Path, vllm_src: Path | None, workers: int, out: Console) -> int:
    """Makes the trials, or with ``sanitize`` compute-sanitizer's sessions, of which no result is recorded yet.

    ``vllm_src``: where vLLM's files are now, if not where the run was begun. InputError where anything has changed since.
    Ctrl-C ends the children and keeps what is recorded, which is then judged INVALID as a whole.
    """
    with writer.alone(there):
        manifest, tried, sanitized = read(there)
        asked = _unchanged(there, manifest, vllm_src)
        tried = [one for one in tried if judging.verdict(one) is not Verdict.INVALID]
        sanitized = [one for one in sanitized if one.lost is None]
        try:
            if asked.sanitize:
                _sanitize(there, asked, sanitized, workers, out)
            else:
                _try(there, asked, tried, workers, out)
        except KeyboardInterrupt:
            end(there, manifest, tried, sanitized, out)
            out.print(f"interrupted; go on with: {python()} -m validate races-gpu --resume {there}", markup=False, soft_wrap=True)
            raise
        return end(there, manifest, tried, sanitized, out)


def _end(waiting: Sequence[Future[Any]]) -> None:
    """What has not begun does not; the children of the others are ended."""
    for future in waiting:
        future.cancel()
    children.stop()


def _unchanged(there: Path, manifest: Manifest, vllm_src: Path | None) -> Asked:
    if manifest.source != provenance.source():
        raise InputError(f"cannot resume {there}: the suite's source has changed since it was begun")
    if (found := gpu()) != manifest.gpu:
        raise InputError(f"cannot resume {there}: it was begun on {manifest.gpu}, and here is {found}")
    files = opened(vllm_src or Path(manifest.asked.vllm_src))
    if _digests(files.root) != manifest.vllm.files:
        raise InputError(f"cannot resume {there}: vLLM's files under {files.root} are not those that it was begun with")
    return manifest.asked.model_copy(update={"vllm_src": str(files.root)})


def _try(there: Path, asked: Asked, tried: list[Tried], workers: int, out: Console) -> None:
    known = [one.trial for one in tried]
    left = [trial for trial in plan.chosen(asked.keyword) if trial not in known]
    with tempfile.TemporaryDirectory(prefix="k3-parity-") as scratch:
        jobs = [partial(children.tried, trial, asked, Path(scratch), number) for number, trial in enumerate(left)]
        record(ThreadPoolExecutor(workers), jobs, there / TRIALS, tried, out, _end)


def _sanitize(there: Path, asked: Asked, sanitized: list[Sanitized], workers: int, out: Console) -> None:
    program, known = sanitizer.found(), [one.name for one in sanitized]
    left = [one for one in sanitizer.sessions(asked.keyword) if one.name not in known]
    named = sanitizer.name_filter(program)
    with tempfile.TemporaryDirectory(prefix="k3-parity-") as scratch:
        at = Path(scratch)
        jobs = [partial(sanitizer.sanitized, one, asked, program, named, at, number) for number, one in enumerate(left)]
        record(ThreadPoolExecutor(workers), jobs, there / SANITIZED, sanitized, out, _end)


def end(there: Path, manifest: Manifest, tried: Sequence[Tried], sanitized: Sequence[Sanitized], out: Console) -> int:
    """Judges what was found, and writes and shows it, in the order of the names. Returns the exit code."""
    tried = sorted(tried, key=lambda one: one.trial.name)
    sanitized = sorted(sanitized, key=lambda one: one.name)
    found = checks(tried, sanitized)
    if len(found) < manifest.planned:
        text = f"{len(found)} of {manifest.planned} were run"
        found.append(_check("complete", Verdict.INVALID, text))
    verdict = worst(check.verdict for check in found if check.verdict)
    manifest = manifest.model_copy(update={"end": folder.now(), "verdict": verdict})
    folder.write_manifest(there, manifest)
    folder.write(there, "summary.md", summary.render(manifest, tried, sanitized))
    folder.write(there, "junit.xml", junit.render("races-gpu", found, lambda finding: finding.text))
    out.print(summary.ran(manifest).replace("**", ""), markup=False)
    table = Table("trial", "verdict", "repeats", "control", "control undisturbed", "s")
    for one in tried:
        figures = map(judging.outcome, (one.sound, one.control, one.undisturbed))
        judged = judging.verdict(one)
        style = None if judged is None else COLOURS[judged]
        table.add_row(one.trial.name, judged or summary.NOT_JUDGED, *figures, f"{one.seconds:.0f}", style=style)
    for session in sanitized:
        judged = judging.sanitized_verdict(session)
        reports = str(sum(report.count for report in session.reports))
        table.add_row(session.name, judged, f"{reports} reports", "", "", f"{session.seconds:.0f}", style=COLOURS[judged])
    out.print(table)
    for check in found:
        if check.verdict is None:
            out.print(check.detail, markup=False, soft_wrap=True)
        for finding in check.findings:
            out.print(finding.text, markup=False, soft_wrap=True)
    out.print(f"{verdict}  {there}", markup=False, soft_wrap=True)
    return verdict.exit_code


def checks(tried: Sequence[Tried], sanitized: Sequence[Sanitized]) -> list[Check]:
    """One a trial, one a session."""
    made = [_check(one.trial.name, judging.verdict(one), judging.why(one)) for one in tried]
    return made + [_check(one.name, judging.sanitized_verdict(one), judging.sanitized_why(one)) for one in sanitized]


def _check(name: str, verdict: Verdict | None, why: str) -> Check:
    if verdict is None:
        return Check(name=name, verdict=None, detail=why)
    findings = () if verdict is Verdict.PASS else (Finding(verdict=verdict, text=why),)
    return Check(name=name, verdict=verdict, detail=name, findings=findings)


def _digests(root: Path) -> dict[str, str]:
    kernels = sorted((root / entries.CUTEDSL).rglob("*.py"))
    return {str(file.relative_to(root)): hashlib.sha256(file.read_bytes()).hexdigest()[:16] for file in kernels}
