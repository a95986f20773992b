"""``report.md``: the same as the page, for a terminal or a merge request."""

from validate.report.tables import markdown
from validate.signoff.evidence import LAYERS, Evidence, Table
from validate.signoff.report import PROVENANCE, SCREEN, Report, provenance, published, screen

SHOWN = 40  # rows of a table; the page and the JSON file have all


def render(report: Report) -> str:
    """The first screen, then layer by layer."""
    text = [f"# {report.title}: {report.verdict}", f"What ran: {'; '.join(report.ran())}.", markdown(SCREEN, screen(report))]
    if report.refusals:
        rows = [(one.kind, f"{one.layer}, {one.part}", one.record or "-", one.why) for one in report.refusals]
        text += [f"## Why it is not signed: {len(rows)}", markdown(("reason", "of", "record", "why"), rows)]
    proofs = [(one.part, one.source.name, one.proof or "", one.apart) for one in report.evidence if one.attested is not None]
    if proofs:
        header = ("part", "record", "steps on the specialized path", "what the arms have alike")
        text += ["## Proof of path", markdown(header, proofs)]
    failures = [(one.source.name, one.failures) for one in report.evidence if one.failures]
    if failures:
        text += ["## Responses that are no answers", markdown(("record", "counts"), failures)]
    for layer in LAYERS:
        text += [part for one in report.of(layer) for part in _evidence(one)]
    if report.matrices:
        found = [(m.layer, m.part, f"{m.found} of {m.planted}", m.false_alarms, m.source.name) for m in report.matrices]
        text += [
            "## What the suite finds of planted faults",
            markdown(("layer", "part", "found", "false alarms", "record"), found),
        ]
    not_run = [(one.part, entry.what, entry.why) for one in report.evidence for entry in one.not_run]
    if not_run:
        text += ["## Not run", markdown(("part", "what", "why"), not_run)]
    text += ["## What was published, beside what was measured", *(part for table in published(report) for part in _table(table))]
    text += ["## Records", markdown(PROVENANCE, provenance(report.evidence)), f"Made {report.made}."]
    return "\n\n".join(text) + "\n"


def _evidence(one: Evidence) -> list[str]:
    rows = [(c.name, c.verdict or "not run", len(c.findings) or "", c.detail) for c in one.checks[:SHOWN]]
    text = [f"## {one.layer}: {one.part}", f"**{one.verdict}**, {one.ran}. {one.headline}."]
    if rows:
        text.append(markdown(("check", "verdict", "findings", "rests on"), rows))
    return text + [part for table in one.tables for part in _table(table)]


def _table(table: Table) -> list[str]:
    text = [f"### {table.title}", markdown(table.header, table.rows[:SHOWN])]
    if len(table.rows) > SHOWN:
        text.append(f"{len(table.rows) - SHOWN} more rows are in the page and in report.json.")
    return [*text, table.note] if table.note else text
