"""One run of the races from arguments to an exit code: every search is recorded when it ends."""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from validate.equivalence.compare import junit
from validate.equivalence.compare.finding import Check, Finding
from validate.errors import InputError
from validate.processes import end_with_parent, end_workers, python
from validate.races import origins, searching, summary
from validate.races.jobs import record
from validate.races.record import EXPLORED, Asked, Explored, Manifest, read
from validate.records import folder, provenance, writer
from validate.report.console import COLOURS
from validate.verdict import Verdict, worst


def begin(asked: Asked, output: Path, vllm_src: Path | None = None) -> Path:
    """A new run's folder. InputError, before there is one, if nothing is selected, or there is no vLLM in ``vllm_src``."""
    searches = searching.searches(asked)
    files = origins.files(vllm_src)
    moved = None if files is None else origins.moved(files, dict.fromkeys(search.protocol for search in searches))
    there = folder.create(output, "races")
    folder.write(there, EXPLORED, "")
    manifest = Manifest(
        asked=asked,
        planned=len(searches),
        moved=moved,
        vllm=None if files is None else origins.version(files),
        **provenance.made(),
    )
    folder.write_manifest(there, manifest)
    return there


def run(there: Path, workers: int, out: Console) -> int:
    """Makes the searches that are not recorded yet. Exit code as of the verdict; Ctrl-C keeps what is recorded."""
    with writer.alone(there):
        manifest, found = read(there)
        if manifest.source != provenance.source():
            raise InputError(f"cannot resume {there}: the suite's source has changed since it was begun")
        wanted = searching.searches(manifest.asked)
        known = [one.search for one in found]
        jobs = [partial(searching.run, search, manifest.asked) for search in wanted if search not in known]
        try:
            record(
                ProcessPoolExecutor(workers, initializer=end_with_parent),
                jobs,
                there / EXPLORED,
                found,
                out,
                lambda _: end_workers(),
            )
        except KeyboardInterrupt:
            out.print(f"interrupted; go on with: {python()} -m validate races --resume {there}", markup=False, soft_wrap=True)
            raise
        found.sort(key=lambda one: wanted.index(one.search))
        verdict = worst(check.verdict for check in checks(manifest, found) if check.verdict)
        manifest = manifest.model_copy(update={"end": folder.now(), "verdict": verdict})
        folder.write_manifest(there, manifest)
        folder.write(there, "summary.md", summary.render(manifest, found))
        folder.write(there, "junit.xml", junit.render("races", checks(manifest, found), lambda finding: finding.text))
    _show(manifest, found, out)
    out.print(f"{verdict}  {there}", markup=False, soft_wrap=True)
    return verdict.exit_code


def checks(manifest: Manifest, found: Sequence[Explored]) -> list[Check]:
    """One a search, and one for each model that was read from other files of vLLM's than those it was held against.

    Of planted faults one that is missed is a FAIL.
    """
    made = []
    for one in found:
        verdict, text = one.verdict, summary.finding(one)
        if manifest.asked.faults:
            verdict = Verdict.PASS if one.kind else Verdict.FAIL
            text = f"{one.search.name}: the planted fault is not found"
        findings = () if verdict is Verdict.PASS else (Finding(verdict=verdict, text=text),)
        made.append(Check(name=one.search.name, verdict=verdict, detail=f"{one.states} states", findings=findings))
    for protocol in manifest.moved or {}:
        stale = Finding(verdict=Verdict.INCONCLUSIVE, text=summary.moved(manifest, protocol))
        made.append(Check(name=f"origin of {protocol}", verdict=stale.verdict, detail=protocol, findings=(stale,)))
    return made


def _show(manifest: Manifest, found: Sequence[Explored], out: Console) -> None:
    out.print(summary.RAN.replace("**", ""), markup=False, soft_wrap=True)
    if manifest.asked.plant:
        out.print(summary.planted(manifest.asked.plant), markup=False, soft_wrap=True)
    table = Table("search", "verdict", "states", "steps", "seconds", "found")
    for one, check in zip(found, checks(manifest, found), strict=False):  # those of origins come after them
        assert check.verdict is not None
        figures = f"{one.states:,}", f"{one.steps:,}", f"{one.seconds:.1f}"
        table.add_row(one.search.name, check.verdict, *figures, one.kind or "", style=COLOURS[check.verdict])
    out.print(table)
    for line in summary.origins(manifest):
        out.print(line, markup=False, soft_wrap=True)
    if manifest.asked.faults:
        return
    wrong = sorted((one for one in found if one.kind), key=lambda one: len(one.trace), reverse=True)
    short = {one.search.protocol: one for one in wrong}.values()  # the shortest of each protocol; summary.md has all
    for one in [*short, *(one for one in found if one.verdict is Verdict.INCONCLUSIVE)]:
        out.print(summary.finding(one), markup=False, soft_wrap=True)
