"""``summary.md`` of a gate: the verdict, the steps and the first findings; then what the layers themselves say.

A CI server shows it: GitHub takes 1 MiB of a job's step (docs.github.com, "Workflow commands: adding a job summary").
"""

import re
from pathlib import Path

from validate.gate.findings import short, tail
from validate.gate.record import Gate, StepRecord
from validate.report.tables import markdown
from validate.verdict import Verdict

LIMIT = 1_000_000  # bytes; what a workflow adds of its own has some room
FINDINGS = 5  # of each step, in the first screen
LOG = 20_000  # bytes of a log's end
ORDER = (Verdict.FAIL, Verdict.INVALID, Verdict.INCONCLUSIVE)


def render(there: Path, gate: Gate, go_on: str | None) -> str:
    """Markdown of at most ``LIMIT`` bytes. ``go_on``: the command that runs what is left."""
    # First lines hold no more than a few reasons of a few hundred characters a step.
    head = "\n\n".join(part for part in (_head(gate), _steps(gate), _left(go_on), _findings(gate)) if part)
    parts, room = [head], LIMIT - len(head.encode())
    for one in sorted((one for one in gate.steps if one.verdict in ORDER), key=lambda one: ORDER.index(one.verdict)):
        for title, text, path in _said(there, one):
            fenced = fence(cut(text, room - 1000, path))  # the title, the fence and the line that says what was cut
            if room < 2000:
                fenced = f"Not shown, there is no room: {path}"
            parts.append(f"## {one.step.name}: {title}\n\n{fenced}")
            room -= len(parts[-1].encode()) + 2
            if room < 2000:
                return "\n\n".join(parts) + "\n\nWhat follows was cut: the run's folder has all.\n"
    return "\n\n".join(parts) + "\n"


def first(gate: Gate, one: StepRecord) -> str:
    """In one line what is the matter with a step."""
    if one.reasons:
        return one.reasons[0]
    if one.verdict is not None:
        return ""
    if one.command:
        return "interrupted"
    if gate.proven and not gate.keep_going:
        return f"not run, since {gate.proven.step.name} proved a defect"
    return f"needs {' and '.join(f'--{need}' for need in one.lacking)}" if one.lacking else "not run yet"


def cut(text: str, most: int, path: Path | str) -> str:
    """A text of at most so many bytes, behind them a line that says what was cut."""
    written = text.encode()
    if len(written) <= most:
        return text
    kept = written[: max(most, 0)].decode(errors="ignore")
    return f"{kept}\n… cut: {len(kept.encode()):,} of {len(written):,} bytes are shown, all of it is in {path}"


def fence(text: str) -> str:
    """A text as it is, whatever Markdown it holds."""
    marks = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
    return f"{marks}text\n{text.rstrip()}\n{marks}"


def _head(gate: Gate) -> str:
    at = f"commit {gate.commit[:12]}{', with changes' if gate.dirty else ''}" if gate.commit else "no commit known"
    gpus = f", {len(gate.machine.gpus)} × {gate.machine.gpus[0].split(',')[0]}" if gate.machine.gpus else ", no GPU"
    minutes = f"{gate.seconds / 60:.1f} of {gate.profile.budget:g} min"
    return f"# {gate.judged}: gate {gate.profile.name}\n\n{gate.profile.description}. {minutes}, {at}{gpus}."


def _steps(gate: Gate) -> str:
    body = [
        [
            one.step.name,
            one.verdict or "not run",
            f"{one.seconds / 60:.1f} of {one.step.budget:g}",
            one.record or "",
            _inline(first(gate, one)),
        ]
        for one in gate.steps
    ]
    return markdown(["step", "verdict", "minutes", "record", "first finding"], body)


def _left(go_on: str | None) -> str:
    return f"Not all has run; go on with:\n\n{fence(go_on)}" if go_on else ""


def _findings(gate: Gate) -> str:
    lines = [
        f"{one.step.name}: {reason}"
        for verdict in ORDER
        for one in gate.steps
        if one.verdict is verdict
        for reason in one.reasons[:FINDINGS]
    ]
    return f"## First findings\n\n{fence(chr(10).join(lines))}" if lines else ""


def _said(there: Path, one: StepRecord) -> list[tuple[str, str, Path]]:
    """Titles, texts and files of what a layer itself says: its newest summary, and the end of its log."""
    found = []
    if one.record:
        summaries = sorted((there / one.record).rglob("summary.md"), key=lambda path: path.stat().st_mtime)
        found += [("summary.md", path.read_text(encoding="utf-8", errors="replace"), path) for path in summaries[-1:]]
    if one.log:
        said = tail(there / one.log)[-LOG:]
        found.append(("end of its log", said, there / one.log))
    return found


def _inline(text: str) -> str:
    """Text that a table's cell shows as it is."""
    return re.sub(r"([\\`*_<>\[\]])", r"\\\1", short(text)[:200])
