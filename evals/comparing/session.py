"""A comparison of evals from folders to an exit code."""

from pathlib import Path

from rich.console import Console

from evals.comparing import summary
from evals.comparing.comparison import Comparison, compare
from validate.equivalence.compare import junit, shown
from validate.equivalence.compare.finding import Finding
from validate.records import folder

SHOWN = 10  # findings printed at the end; summary.md has more


def run(default: Path, again: Path | None, specialized: Path, output: Path, out: Console) -> int:
    """Reads the arms, writes the comparison's folder, prints it. InputError for a record that is damaged."""
    comparison = compare(default, again, specialized)
    made = folder.create(output, "compare-evals")
    folder.write(made, "comparison.json", comparison.model_dump_json(indent=2) + "\n")
    folder.write(made, "summary.md", summary.render(comparison))
    folder.write(made, "junit.xml", junit.render("evals", comparison.checks, told))
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
    found = comparison.findings
    for finding in found[:SHOWN]:
        out.print(told(finding), markup=False, soft_wrap=True)
    if len(found) > SHOWN:
        out.print(f"{len(found) - SHOWN} more are in comparison.json", markup=False)
