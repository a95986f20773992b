"""A comparison from folders to an exit code."""

from pathlib import Path

from rich.console import Console

from validate.equivalence.compare import junit, shown, summary
from validate.equivalence.compare.arms import Arms
from validate.equivalence.compare.comparison import Comparison, compare
from validate.records import arm_folder, folder


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
    shown.write(made, comparison, summary.render(comparison), junit.render("equivalence", comparison.checks, comparison.told))
    show(comparison, out)
    out.print(f"{comparison.verdict}  {made}", markup=False)
    return comparison.exit_code


def show(comparison: Comparison, out: Console) -> None:
    """The table of checks, then what did not pass."""
    out.print(f"What ran: {shown.what_ran(comparison.arms[2])}", markup=False)
    out.print(shown.table(comparison.checks))
    for arm in comparison.planted:
        out.print(f"planted in {arm.name}: {arm.planted}", markup=False)
    shown.not_passed([comparison.told(finding) for finding in comparison.findings], out)
