"""``summary.md`` of a run, and a counterexample for people."""

from collections.abc import Sequence

from validate.races.record import Explored, Manifest
from validate.races.searching import protocol
from validate.report.tables import markdown
from validate.verdict import Verdict

RAN = (
    "What ran: **models of the protocols**, on a CPU, written by hand after vLLM 0.33.0. No kernel of vLLM's was run: "
    "whoever changes one changes its model, too."
)


def planted(fault: str) -> str:
    """For whoever reads the verdict of a run with a planted fault."""
    return f"The fault `{fault}` was planted: this tests the suite and says nothing of vLLM. PASS means that it is not found."


def moved(manifest: Manifest, protocol: str) -> str:
    """Of a model that was read from other files."""
    files = ", ".join((manifest.moved or {})[protocol])
    return f"{protocol}: its model was written after another version of {files}: see whether it still says what they do"


def origins(manifest: Manifest) -> list[str]:
    """Whether the models were written after the files of the vLLM that was named; nothing where none was."""
    if manifest.moved is None:
        return []
    same = "vLLM's files are those that the models were written after."
    return [moved(manifest, protocol) for protocol in manifest.moved] or [same]


def finding(one: Explored) -> str:
    """What went wrong, what led to it, and how to see it again; or that the end was not reached."""
    if one.kind is None:
        return f"{one.search.name}: {one.states:,} states without a violation, and not all of them: raise --limit"
    steps = "\n".join(f"  {number:3} {line}" for number, line in enumerate(one.trace, 1))
    return f"{one.search.name}: {one.kind}\n  {one.text}\n{steps}\n  replay: {replay(one)}"


def replay(one: Explored) -> str:
    """The command that shows a counterexample again."""
    name = f"{one.search.protocol}{f'.{one.search.fault}' if one.search.fault else ''}"
    sizes = ",".join(f"{name}={value}" for name, value in one.search.sizes.items())
    return f"python -m validate replay {name} {sizes} '{one.schedule}'"


def render(manifest: Manifest, found: Sequence[Explored]) -> str:
    """All of a run."""
    asked = manifest.asked
    text = ["# Races", f"**{manifest.verdict}**: {len(found)} of {manifest.planned} searches.", RAN]
    text += origins(manifest)
    if asked.plant:
        text.append(planted(asked.plant))
    if asked.faults:
        text.append(_matrix(found))
    else:
        rows = [[e.search.name, e.verdict, f"{e.states:,}", f"{e.steps:,}", f"{e.seconds:.1f}", e.kind or ""] for e in found]
        text.append(markdown(["search", "verdict", "states", "steps", "seconds", "found"], rows))
        text += [f"```\n{finding(one)}\n```" for one in found if one.verdict is not Verdict.PASS]
    where = f"commit {manifest.commit or 'unknown'}{' with changes' if manifest.dirty else ''}, {manifest.machine.cpu}"
    text.append(f"{manifest.start} to {manifest.end}, {where}")
    return "\n\n".join(text) + "\n"


def _matrix(found: Sequence[Explored]) -> str:
    rows = []
    for one in found:
        fault = next(fault for fault in protocol(one.search.protocol).faults if fault.name == one.search.fault)
        told = one.kind or "missed", f"{one.states:,}", len(one.trace)
        rows.append([one.search.protocol, fault.name, fault.plants, fault.stands_for, *told])
    return markdown(["protocol", "fault", "plants", "stands for", "found as", "states", "trace"], rows)
