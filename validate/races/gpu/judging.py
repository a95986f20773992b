"""From repeats to verdicts. Nothing here needs a GPU."""

from collections.abc import Sequence
from dataclasses import dataclass

from validate.races.gpu.record import Attempt, Report, Sanitized, Tried
from validate.verdict import Verdict


@dataclass(frozen=True)
class Repeat:
    """``unequal``: what differs from the undisturbed result, None if nothing; ``unarmed``: words of the mailbox."""

    unequal: str | None
    unarmed: int


def attempt(done: Sequence[Repeat], hung: str | None, error: str | None, late: int = 0, shut: str | None = None) -> Attempt:
    """The repeats that ended, and how the one after them did not."""
    details = [one.unequal or (f"{one.unarmed} words are not armed again" if one.unarmed else None) for one in done]
    return Attempt(
        repeats=len(done),
        unequal=sum(one.unequal is not None for one in done),
        unarmed=sum(one.unarmed > 0 for one in done),
        first=bool(done) and details[0] is not None,
        hung=hung is not None,
        error=error,
        detail=next((detail for detail in [*details, hung, error] if detail is not None), None),
        late=late,
        shut=shut,
    )


def verdict(tried: Tried) -> Verdict | None:
    """FAIL if the fixed kernel was wrong; else INCONCLUSIVE if the control was right, or if most of the fixed kernel's launches
    were too late for the adversary; INVALID without a result of either.

    None, nothing to judge, if on this GPU no control could be wrong.
    """
    if tried.sound is not None and tried.sound.wrong:
        return Verdict.FAIL
    if tried.sound is None or tried.control is None:
        return Verdict.INVALID
    if tried.control.wrong:
        return Verdict.INCONCLUSIVE if _late(tried.sound) else Verdict.PASS
    return Verdict.INCONCLUSIVE if tried.control.shut is None else None


def why(tried: Tried) -> str:
    """What a verdict other than PASS rests on, in one line."""
    if tried.sound is not None and tried.sound.wrong:
        return f"{tried.trial.name}: {outcome(tried.sound)}: {tried.sound.detail}"
    if tried.sound is None or tried.control is None:
        return f"{tried.trial.name}: no result: {tried.lost}"
    if tried.control.wrong:
        return f"{tried.trial.name}: the kernel is right in {tried.sound.repeats} repeats, but {tried.sound.late} came too late"
    if tried.control.shut is not None:
        return f"{tried.trial.name}: not judged: {tried.control.shut}"
    late = f", of which {tried.control.late} were launched too late" if tried.control.late else ""
    repeats = f"{tried.control.repeats} repeats{late}"
    return f"{tried.trial.name}: the kernel without the fix is right, too, in {repeats}: this proves nothing"


def _late(attempt: Attempt) -> bool:
    return 2 * attempt.late > attempt.repeats


def outcome(attempt: Attempt | None) -> str:
    """In a few words: ``200 right``, ``13 of 200 unequal``, ``hung after 4``."""
    if attempt is None:
        return "-"
    parts = []
    if attempt.unequal:
        parts.append(f"{attempt.unequal} of {attempt.repeats} unequal")
    if attempt.unarmed:
        parts.append(f"{attempt.unarmed} of {attempt.repeats} not armed again")
    if attempt.hung:
        parts.append(f"hung after {attempt.repeats}")
    if attempt.error is not None:
        parts.append(f"CUDA error after {attempt.repeats}")
    return ", ".join(parts) or f"{attempt.repeats} right"


def sanitized_verdict(one: Sanitized) -> Verdict:
    """Of the sound kernel FAIL for an error, INCONCLUSIVE for a warning; of a faulty copy INCONCLUSIVE if nothing is reported.

    Reports that are explained do not count in either.
    """
    if one.lost is not None:
        return Verdict.INVALID
    severities = {report.severity for report in unexplained(one)}
    if one.fault is not None:
        return Verdict.PASS if severities else Verdict.INCONCLUSIVE
    return Verdict.FAIL if "error" in severities else Verdict.INCONCLUSIVE if severities else Verdict.PASS


def sanitized_why(one: Sanitized) -> str:
    """What a verdict other than PASS rests on, in one line."""
    if one.lost is not None:
        return f"{one.name}: no result: {one.lost}"
    if one.fault is not None:
        return f"{one.name}: the tool finds no fault with the faulty copy: its silence proves nothing"
    return f"{one.name}: " + "; ".join(f"{said(r)} ({r.count} in {r.kernel})" for r in unexplained(one))


def unexplained(one: Sanitized) -> list[Report]:
    """The reports that count."""
    return [report for report in one.reports if report.explained is None]


def said(report: Report) -> str:
    """In one line, with the instructions of a race."""
    places = f" ({', '.join(report.places)})" if report.places else ""
    return f"{report.severity}: {report.text}{places}"
