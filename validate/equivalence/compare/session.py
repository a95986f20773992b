"""A comparison from folders to an exit code."""

from pathlib import Path

from rich.console import Console
from rich.table import Table

from validate.equivalence.compare import junit, summary
from validate.equivalence.compare.arms import Arms
from validate.equivalence.compare.comparison import Comparison, compare
from validate.records import arm_folder, folder
from validate.report.console import COLOURS

SHOWN = 10  # findings printed at the end; summary.md has more


def run(
    arms: tuple[Path, Path, Path],
    output: Path,
    out: Console,
    *,
    float32: Path | None = None,
    undrafted: Path | None = None,
    golden: bool = False,
) -> int:
    """Reads the arms, writes the comparison's folder, prints it. InputError for a record that is damaged."""
    default, again, specialized = (arm_folder.read(path) for path in arms)
    read = Arms(default, again, specialized, arm_folder.read(float32) if float32 else None)
    comparison = compare(read, arm_folder.read(undrafted) if undrafted else None, golden)
    made = folder.create(output, "compare")
    folder.write(made, "comparison.json", comparison.model_dump_json(indent=2) + "\n")
    folder.write(made, "summary.md", summary.render(comparison))
    folder.write(made, "junit.xml", junit.render(comparison))
    show(comparison, out)
    out.print(f"{comparison.verdict}  {made}", markup=False)
    return comparison.exit_code


def show(comparison: Comparison, out: Console) -> None:
    """The table of checks, then what did not pass."""
    out.print(f"What ran: {summary.what_ran(comparison)}", markup=False)
    table = Table("check", "verdict", "findings", "rests on")
    for check in comparison.checks:
        colour = COLOURS[check.verdict] if check.verdict else ""
        table.add_row(check.name, check.verdict or "not run", str(len(check.findings) or ""), check.detail, style=colour)
    out.print(table)
    for arm in comparison.planted:
        out.print(f"planted in {arm.name}: {arm.planted}", markup=False)
    found = comparison.findings
    for finding in found[:SHOWN]:
        out.print(comparison.told(finding), markup=False, soft_wrap=True)
    if len(found) > SHOWN:
        out.print(f"{len(found) - SHOWN} more are in comparison.json", markup=False)
