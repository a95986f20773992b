"""``report.md``: the same as the page, for a terminal or a merge request."""

from collections.abc import Iterable

from validate.report import tables
from validate.signoff.evidence import LAYERS, Evidence, Table
from validate.signoff.report import PROVENANCE, SCREEN, Report, identity, not_run, provenance, published, screen
from validate.signoff.text import visible

SHOWN = 40  # rows of a table; the page and the JSON file have all
LONGEST = 500  # characters of one text
# Of Markdown and of HTML within it. A pipe is tables.markdown's.
MARKS = str.maketrans({"\\": "\\\\", "&": "&amp;", "<": "&lt;", "[": "\\[", "]": "\\]", "`": "\\`", "*": "\\*"})


def render(report: Report) -> str:
    """The first screen, then layer by layer."""
    text = [f"# {report.title}: {report.verdict}", f"What ran: {'; '.join(report.ran())}."]
    text += [_tabled(("of", "is"), identity(report)), _tabled(SCREEN, screen(report))]
    if report.refusals:
        rows = [(one.kind, f"{one.layer}, {one.part}", one.record or "-", one.why) for one in report.refusals]
        text += [f"## Why it is not signed: {len(rows)}", _tabled(("reason", "of", "record", "why"), rows)]
    proofs = [(one.part, one.source.name, one.proof or "", one.apart) for one in report.evidence if one.attested is not None]
    if proofs:
        header = ("part", "record", "steps on the specialized path", "what the arms have alike")
        text += ["## Proof of path", _tabled(header, proofs)]
    failures = [(one.source.name, one.failures) for one in report.evidence if one.failures]
    if failures:
        text += ["## Responses that are no answers", _tabled(("record", "counts"), failures)]
    for layer in LAYERS:
        text += [part for one in report.of(layer) for part in _evidence(one)]
    if report.matrices:
        found = [(m.layer, m.part, f"{m.found} of {m.planted}", m.false_alarms, m.source.name) for m in report.matrices]
        text += [
            "## What the suite finds of planted faults",
            _tabled(("layer", "part", "found", "false alarms", "record"), found),
        ]
    left = not_run(report)
    if left.rows:
        text += ["## Not run", _tabled(left.header, left.rows)]
    text += ["## What was published, beside what was measured", *(part for table in published(report) for part in _table(table))]
    text += ["## Records", _tabled(PROVENANCE, provenance(report.evidence)), f"Made {report.made}."]
    return "\n\n".join(text) + "\n"


def told(text: str) -> str:
    """What a record says, as text in one line: neither markup nor a heading."""
    return " ".join(visible(text, LONGEST).split()).translate(MARKS)


def _tabled(header: Iterable[str], body: Iterable[Iterable[object]]) -> str:
    return tables.markdown(header, [[told(cell) if isinstance(cell, str) else cell for cell in row] for row in body])


def _evidence(one: Evidence) -> list[str]:
    rows = [(c.name, c.verdict or "not run", len(c.findings) or "", c.detail) for c in one.checks[:SHOWN]]
    text = [f"## {one.layer}: {one.part}", f"**{one.verdict}**, {told(one.ran)}. {told(one.headline)}."]
    if rows:
        text.append(_tabled(("check", "verdict", "findings", "rests on"), rows))
    return text + [part for table in one.tables for part in _table(table)]


def _table(table: Table) -> list[str]:
    text = [f"### {told(table.title)}", _tabled(table.header, table.rows[:SHOWN])]
    if len(table.rows) > SHOWN:
        text.append(f"{len(table.rows) - SHOWN} more rows are in the page and in report.json.")
    return [*text, told(table.note)] if table.note else text
