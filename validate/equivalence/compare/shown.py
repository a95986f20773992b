"""What every comparison of arms leaves and shows, of whole engines, long outputs and evals."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from validate.equivalence.compare.finding import Check
from validate.records import folder
from validate.records.arm import EngineManifest
from validate.records.seal import seal
from validate.report.console import COLOURS
from validate.report.tables import markdown

SHOWN = 10  # findings printed at the end; a file has more


def write(made: Path, comparison: BaseModel, summary: str, junit: str) -> None:
    """Its files."""
    folder.write(made, "comparison.json", comparison.model_dump_json(indent=2) + "\n")
    folder.write(made, "summary.md", summary)
    folder.write(made, "junit.xml", junit)
    seal(made)


def not_passed(lines: Sequence[str], out: Console, file: str = "comparison.json") -> None:
    """The first of the findings, and which ``file`` has more."""
    for line in lines[:SHOWN]:
        out.print(line, markup=False, soft_wrap=True)
    if len(lines) > SHOWN:
        out.print(f"{len(lines) - SHOWN} more are in {file}", markup=False)


def what_ran(arm: EngineManifest) -> str:
    """The stand-in, or Kimi K3, and on which machine."""
    model = "the stand-in, a small network of Kimi K3's shape, emulated specialized decode" if arm.stand_in else "Kimi K3 in vLLM"
    where = ", ".join(sorted({gpu.split(",")[0] for gpu in arm.machine.gpus})) or f"CPU ({arm.machine.cpu})"
    return f"{model}, on {where}"


def table(checks: Iterable[Check]) -> Table:
    """Of the checks, for a terminal."""
    shown = Table("check", "verdict", "findings", "rests on")
    for check in checks:
        colour = COLOURS[check.verdict] if check.verdict else ""
        shown.add_row(check.name, check.verdict or "not run", str(len(check.findings) or ""), escape(check.detail), style=colour)
    return shown


def checks_table(checks: Iterable[Check]) -> str:
    """Of the checks, in Markdown."""
    return markdown(
        ["check", "verdict", "findings", "rests on"],
        [[c.name, c.verdict or "not run", len(c.findings) or "", c.detail] for c in checks],
    )


def head(title: str, arms: Iterable[EngineManifest]) -> str:
    """The title, what was planted, what ran, and that a stand-in proves nothing; the specialized arm is the last."""
    text = [f"# {title}"]
    arms = tuple(arms)
    for arm in arms:
        if arm.planted:
            text.append(
                f"The fault `{arm.planted}` was planted in {arm.name}: this tests the suite and says nothing of the paths."
            )
    text.append(f"What ran: **{what_ran(arms[-1])}**.")
    if arms[-1].stand_in:
        text.append("A stand-in can not sign off a release: no kernel of vLLM's specialized decode was run.")
    return "\n\n".join(text)
