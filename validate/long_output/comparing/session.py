"""A comparison of long outputs from folders to an exit code."""

from pathlib import Path

from rich.console import Console

from validate.equivalence.arm import LongOutputs
from validate.equivalence.compare import junit, shown
from validate.equivalence.compare.arms import Arms
from validate.long_output.comparing import summary
from validate.long_output.comparing.comparison import LongComparison, compare
from validate.records import arm_folder, folder


def run(arms: tuple[Path, Path, Path], output: Path, out: Console, asked: LongOutputs, float32: Path | None = None) -> int:
    """Reads the arms, writes the comparison's folder, prints it. InputError for a record that is damaged."""
    default, again, specialized = (arm_folder.read(path) for path in arms)
    found = compare(Arms(default, again, specialized, arm_folder.read(float32) if float32 else None), asked)
    made = folder.create(output, "compare")
    shown.write(made, found, summary.render(found), junit.render("long_output", found.checks, found.told))
    _show(found, out)
    out.print(f"{found.verdict}  {made}", markup=False)
    return found.exit_code


def _show(found: LongComparison, out: Console) -> None:
    out.print(f"What ran: {shown.what_ran(found.engines.arms[2])}", markup=False)
    out.print(shown.table(found.checks))
    shown.not_passed([found.told(finding) for finding in found.findings], out)
