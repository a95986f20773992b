"""What a person and a CI server read of a run."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from validate.equivalence.compare import junit as checks_junit
from validate.equivalence.compare.finding import Check, Finding
from validate.equivalence.compare.shown import not_passed
from validate.long_output.drift import detection
from validate.long_output.drift.outcome import DriftManifest, Outcome
from validate.report.console import COLOURS
from validate.report.tables import markdown
from validate.verdict import Verdict

HEADER = ("seed", "subject", "head", "memory", "error at the end", "largest", "bound at the end", "growth exponent", "p")
MANY = 3  # seeds: with more, heads are shown of the first only
LIMITS = (
    "Emulated recurrences with made-up decays: how an error goes on is shown, nothing is said of Kimi K3's weights or of kernels."
)


def junit(outcomes: Sequence[Outcome]) -> str:
    """A test a check of a subject and seed."""
    named = [
        Check(name=f"{outcome.subject} seed {outcome.seed} {c.name}", verdict=c.verdict, detail=c.detail, findings=c.findings)
        for outcome in outcomes
        for c in outcome.checks
    ]
    return checks_junit.render("drift", named, lambda finding: finding.line)


def summary(manifest: DriftManifest, outcomes: Sequence[Outcome]) -> str:
    """``summary.md``."""
    arguments = manifest.arguments
    parts = [f"# {manifest.verdict or Verdict.INVALID}: state drift over {arguments.steps:,} steps, {arguments.seeds} seed(s)"]
    if manifest.end is None:
        parts.append("Interrupted, or still running. No verdict can rest on it.")
    if arguments.planted:
        parts.append(f"The fault `{arguments.planted}` was planted: this tests the suite and says nothing of the paths.")
    parts.append(LIMITS)
    if arguments.mode == "faults":
        parts += [detection.headline(outcomes), markdown(detection.HEADER, detection.rows(outcomes))]
    else:
        checks = [[o.seed, o.subject, c.name, c.verdict, c.detail] for o in outcomes for c in o.checks]
        parts += [markdown(("seed", "subject", "check", "verdict", "detail"), checks), markdown(HEADER, _heads(outcomes))]
        if bad := [outcome.told(finding) for outcome, finding in _findings(outcomes)]:
            parts += ["## Not passed", "```text\n" + "\n".join(bad) + "\n```"]
    machine, commit = manifest.machine, (manifest.commit or "unknown") + (" with local changes" if manifest.dirty else "")
    parts.append(f"{manifest.start}, {manifest.seconds:.0f} s, {machine.cpu}, commit {commit}, source {manifest.source}")
    return "\n\n".join(parts) + "\n"


def show(manifest: DriftManifest, outcomes: Sequence[Outcome], out: Console) -> None:
    """Prints what was found."""
    out.print(LIMITS, markup=False, soft_wrap=True)
    if manifest.arguments.mode == "faults":
        table = Table(*detection.HEADER)
        for row in detection.rows(outcomes):
            table.add_row(*map(str, row))
        out.print(table)
        out.print(detection.headline(outcomes), markup=False)
        return
    table = Table("seed", "subject", "check", "verdict", "detail")
    for outcome in outcomes:
        for check in outcome.checks:
            verdict = check.verdict or Verdict.INVALID
            table.add_row(str(outcome.seed), outcome.subject, check.name, f"[{COLOURS[verdict]}]{verdict}", check.detail)
    out.print(table)
    not_passed([outcome.told(finding) for outcome, finding in _findings(outcomes)], out, "summary.md")


def _findings(outcomes: Sequence[Outcome]) -> list[tuple[Outcome, Finding]]:
    return [(outcome, finding) for outcome in outcomes for check in outcome.checks for finding in check.findings]


def _heads(outcomes: Sequence[Outcome]) -> list[list[object]]:
    shown = [outcome for outcome in outcomes if outcome.seed < MANY]
    return [
        [outcome.seed, outcome.subject, n, f"{head.memory:.3g}", f"{head.error:.2e}", f"{head.largest:.2e}", f"{head.bound:.1e}"]
        + (["", ""] if head.rises is None else [f"{head.exponent:.3f}", f"{head.rises:.2g}"])
        for outcome in shown
        for n, head in enumerate(outcome.heads)
    ]
