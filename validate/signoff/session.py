"""A sign-off from folders to an exit code."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from validate.errors import InputError
from validate.records import folder, seal
from validate.report.console import COLOURS
from validate.signoff import html, junit, markdown
from validate.signoff.reading.gathering import gathered
from validate.signoff.report import SCREEN, Report, made, screen
from validate.signoff.required import IMAGE
from validate.signoff.text import visible
from validate.verdict import Verdict

SHOWN = 20  # reasons printed; the report has all
SHORT = 5  # columns of the first screen that a terminal has room for
LONGEST = 2000  # characters of one text


def run(records: Sequence[Path], image: str | None, output: Path, out: Console) -> int:
    """Reads and verifies the records, writes the report's folder, prints its first screen. InputError for an altered record.

    ``image``: the digest of the one that is to be released, if that is known.
    """
    if image is not None and not IMAGE.fullmatch(image):
        raise InputError(f"--image '{image}': a digest is wanted, as sha256: and 64 hex digits; what a tag names changes")
    report = made(gathered(records), image)
    there = folder.create(output, "signoff")
    write(there, report)
    show(report, out)
    out.print(f"{report.title}: {report.verdict}  {there}/report.html", markup=False, soft_wrap=True)
    return report.exit_code


def write(there: Path, report: Report) -> None:
    """``report.html``, ``report.md``, ``report.json`` and ``junit.xml``."""
    folder.write(there, "report.json", report.model_dump_json(indent=1) + "\n")
    folder.write(there, "report.md", markdown.render(report))
    folder.write(there, "junit.xml", junit.render(report))
    folder.write(there, "report.html", html.render(report))
    seal.seal(there)


def show(report: Report, out: Console) -> None:
    """The first screen, and why it is not signed."""
    out.print(f"What ran: {'; '.join(report.ran())}", markup=False)
    table = Table(*SCREEN[:SHORT])
    for row in screen(report):
        verdict = next((one for one in Verdict if one == row[3]), None)
        table.add_row(*(escape(visible(cell, LONGEST)) for cell in row[:SHORT]), style=COLOURS[verdict] if verdict else "")
    out.print(table)
    for refusal in report.refusals[:SHOWN]:
        of = f" {refusal.record}" if refusal.record else ""
        said = f"{refusal.kind}: {refusal.layer}, {refusal.part}{of}: {refusal.why}"
        out.print(visible(said, LONGEST), markup=False, soft_wrap=True)
    if len(report.refusals) > SHOWN:
        out.print(f"{len(report.refusals) - SHOWN} more are in the report", markup=False)
