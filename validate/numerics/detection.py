"""The detection matrix over worker processes: every planted fault on some cases of its stage, on all if those miss it.

The subset meets every size and every kind of input of a stage (``selection.cover``). A fault that it misses is run on
all the other cases of the stage, so "missed" means missed by all.
"""

import json

from validate import keywords
from validate.errors import InputError
from validate.faults import Fault, catalogue
from validate.faults.matrix import CHECKS, Detection, add
from validate.numerics import selection
from validate.numerics.plan import tasks
from validate.numerics.session import Session, interrupted
from validate.records import folder as records
from validate.records.model import NotRun
from validate.report import tables
from validate.verdict import Verdict


def detect(session: Session) -> int:
    """Runs the catalogue and writes ``faults.md`` and ``faults.jsonl``. Exit code 1 if a fault is missed."""
    faults = chosen(session.manifest.arguments.keyword)
    first = selection.cover(session.cases)
    covered = {case.id for case in first}
    rest = [case for case in session.cases if case.id not in covered]
    finished = session.run(tasks(first, [fault.name for fault in faults]))
    missed = [d.fault.name for d in _matrix(session, faults) if not d.found]
    if finished and missed:
        session.out.print(f"{len(missed)} missed on {len(first)} cases; running them on the other {len(rest)}")
        finished = session.run(tasks(rest, missed))
    matrix = _matrix(session, faults)
    verdict = _verdict(session, matrix)
    note = NotRun(what="found faults on every case", why="a subset that meets every size and kind of input found them")
    session.close(verdict, verdict.exit_code, [note], ended=finished)
    text = _render(matrix, verdict)
    records.write(session.folder, "faults.md", text)
    records.write(session.folder, "faults.jsonl", "".join(_row(d) for d in matrix))
    session.out.print(text, markup=False, soft_wrap=True)
    session.out.print(f"record: {session.folder}", soft_wrap=True)
    return verdict.exit_code if finished else interrupted(session)


def chosen(keyword: str | None) -> list[Fault]:
    """The faults whose names match; all without a keyword. InputError if none does."""
    known = catalogue()
    if keyword is None or keyword in known:
        return [known[keyword]] if keyword else list(known.values())
    found = [fault for name, fault in known.items() if keywords.matches(keyword, name)]
    if not found:
        raise InputError(f"-k '{keyword}' selects none of the {len(known)} faults; `python -m validate faults` lists them")
    return found


def _matrix(session: Session, faults: list[Fault]) -> list[Detection]:
    detections = {fault.name: Detection(fault) for fault in faults}
    for line in session.lines:
        if line.subject in detections and line.error is None:
            add(detections[line.subject], line)
    return list(detections.values())


def _verdict(session: Session, matrix: list[Detection]) -> Verdict:
    """FAIL if a fault is missed; INVALID if one ran on no case, a case raised, or the sound path failed."""
    if any(d.cases and not d.found for d in matrix):
        return Verdict.FAIL
    names = {d.fault.name for d in matrix}
    alarms = [line for line in session.lines if line.subject not in names and line.verdict is not Verdict.PASS]
    if alarms or any(d.cases == 0 for d in matrix) or any(line.error for line in session.lines):
        return Verdict.INVALID
    return Verdict.PASS


def _render(matrix: list[Detection], verdict: Verdict) -> str:
    found = sum(d.found for d in matrix)
    subtle = [d for d in matrix if d.fault.subtle]
    head = (
        f"# {verdict}: {found} of {len(matrix)} planted faults found, "
        f"{sum(d.found for d in subtle)} of {len(subtle)} subtle ones\n\n"
        "Cases that each check failed on, of the cases that ran the fault.\n\n"
    )
    body = [
        [d.fault.name, "subtle" if d.fault.subtle else "", "" if d.found else "MISSED", d.cases]
        + [d.failed.get(check, "") for check in CHECKS]
        for d in matrix
    ]
    return head + tables.markdown(["fault", "", "", "cases", *CHECKS], body) + "\n"


def _row(detection: Detection) -> str:
    fault = detection.fault
    row = {"fault": fault.name, "stands_for": fault.stands_for, "subtle": fault.subtle, "path": fault.path}
    row |= {"cases": detection.cases, "found": detection.found, "failed": detection.failed}
    return json.dumps(row) + "\n"
