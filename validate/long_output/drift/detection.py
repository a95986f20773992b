"""The detection matrix: which check finds which planted fault, at which step."""

from collections.abc import Sequence

from validate.faults import drift as faults
from validate.long_output.drift.outcome import Outcome
from validate.report.tables import markdown
from validate.verdict import Verdict

HEADER = ("fault", "changes from step", "found at step", "by", "head", "also by", "stands for")


def verdict(outcomes: Sequence[Outcome]) -> Verdict:
    """FAIL if a fault is missed or a sound path is out, INVALID if nothing ran."""
    known = faults.catalogue()
    if not any(outcome.subject in known for outcome in outcomes):
        return Verdict.INVALID
    missed = any(outcome.subject in known and outcome.found_by is None for outcome in outcomes)
    alarm = any(outcome.subject not in known and outcome.verdict is Verdict.FAIL for outcome in outcomes)
    return Verdict.FAIL if missed or alarm else Verdict.PASS


def rows(outcomes: Sequence[Outcome]) -> list[list[object]]:
    """One a fault, under ``HEADER``; the sound paths first."""
    known = faults.catalogue()
    found = []
    for outcome in outcomes:
        fault = known.get(outcome.subject)
        by, step = outcome.found_by or ("", 0)
        failed = [check for check in outcome.checks if check.verdict is Verdict.FAIL]
        head = next((c.findings[0].text.split("head ")[1].split(" ")[0] for c in failed if c.name == by), "")
        missed = "" if fault is None else "MISSED"
        row: list[object] = [outcome.subject, f"{fault.from_step:,}" if fault else "", f"{step:,}" if by else missed, by, head]
        row += [", ".join(check.name for check in failed if check.name != by), fault.stands_for if fault else "sound"]
        found.append(row)
    return found


def headline(outcomes: Sequence[Outcome]) -> str:
    """How many were found."""
    known = faults.catalogue()
    planted = [outcome for outcome in outcomes if outcome.subject in known]
    alarms = [outcome.subject for outcome in outcomes if outcome.subject not in known and outcome.verdict is Verdict.FAIL]
    found = sum(outcome.found_by is not None for outcome in planted)
    return f"{found} of {len(planted)} planted faults found, " + (
        f"false alarm: {', '.join(alarms)}" if alarms else "no false alarm"
    )


def render(outcomes: Sequence[Outcome]) -> str:
    """``faults.md``."""
    return f"# {verdict(outcomes)}: {headline(outcomes)}\n\n{markdown(HEADER, rows(outcomes))}\n"
