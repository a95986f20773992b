"""A comparison of evals from folders to an exit code."""

from pathlib import Path

from rich.console import Console

from evals.comparing import summary
from evals.comparing.comparison import Comparison, compare
from validate.equivalence.compare import junit, shown
from validate.equivalence.compare.finding import Finding
from validate.records import folder


def run(default: Path, again: Path | None, specialized: Path, output: Path, out: Console) -> int:
    """Reads the arms, writes the comparison's folder, prints it. InputError for a record that is damaged."""
    comparison = compare(default, again, specialized)
    made = folder.create(output, "compare-evals")
    shown.write(made, comparison, summary.render(comparison), junit.render("evals", comparison.checks, told))
    show(comparison, out)
    out.print(f"{comparison.verdict}  {made}", markup=False)
    return comparison.exit_code


def told(finding: Finding) -> str:
    """A finding for a person."""
    return finding.line


def show(comparison: Comparison, out: Console) -> None:
    """The table of checks, alarms, then what did not pass."""
    out.print(f"What ran: {shown.what_ran(comparison.arms[-1])}", markup=False)
    out.print(shown.table(comparison.checks))
    for arm in comparison.arms:
        if arm.planted:
            out.print(f"planted in {arm.name}: {arm.planted}", markup=False)
    for alarm in comparison.alarms:
        out.print(f"alarm: {alarm}", markup=False, soft_wrap=True)
    shown.not_passed([told(finding) for finding in comparison.findings], out)
