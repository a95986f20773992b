"""Two records, stage by stage: what got worse, what got better, what one of them did not measure."""

from dataclasses import dataclass

from validate.records.model import Line, Manifest
from validate.report import tables
from validate.verdict import Verdict, worst

# Figures are the same on one machine and differ by the order of float64 sums on another; 1 % is far above that.
NOTICEABLE = 0.01
SHOWN = 50  # changed verdicts


@dataclass(frozen=True)
class Comparison:
    """``text`` to read, and whether the second record is worse than the first."""

    text: str
    worse: bool


def compare(first: tuple[Manifest, list[Line]], second: tuple[Manifest, list[Line]]) -> Comparison:
    """Worse: a verdict is worse, a case is no longer judged, or a check's largest share of its bound grew by 1 %."""
    before, after = ({(line.case, line.subject): line for line in lines if line.judged} for _, lines in (first, second))
    notes = _differences(first[0], second[0])
    cases = []
    worse = False
    for key in dict.fromkeys([*before, *after]):
        old, new = (side[key].verdict if key in side else None for side in (before, after))
        if old is new:
            continue
        worse |= new is None or worst([old or Verdict.PASS, new]) is not (old or Verdict.PASS)
        cases.append(f"{key[1]} on {key[0]}: {old or 'not run'} -> {new or 'not run'}")
    body = []
    old_rows, new_rows = ({(row.stage, row.subject): row for row in tables.rows(lines)} for _, lines in (first, second))
    for stage, subject in dict.fromkeys([*old_rows, *new_rows]):
        left, right = old_rows.get((stage, subject)), new_rows.get((stage, subject))
        checks = dict.fromkeys([*(left.largest if left else ()), *(right.largest if right else ())])
        for check in checks:
            a = left.largest.get(check) if left else None
            b = right.largest.get(check) if right else None
            change = _change(a, b)
            worse |= change == "worse"
            body.append([stage, subject, check, *("-" if x is None else tables.share(x) for x in (a, b)), change])
    header = ["stage", "subject", "check", "first", "second", "change"]
    verdicts = " -> ".join(manifest.verdict or "unfinished" for manifest, _ in (first, second))
    parts = [f"# {'WORSE' if worse else 'not worse'}: {verdicts}", *notes]
    if cases:
        shown = [f"- {line}" for line in cases[:SHOWN]]
        rest = [f"- and {len(cases) - SHOWN} more"] if len(cases) > SHOWN else []
        parts.append(f"Changed verdicts: {len(cases)}\n" + "\n".join([*shown, *rest]))
    parts += ["Largest figure as a share of its bound:", tables.markdown(header, body)]
    return Comparison("\n\n".join(parts), worse)


def _change(old: float | None, new: float | None) -> str:
    if old is None or new is None:
        return "new" if old is None else "gone"
    if new > old * (1 + NOTICEABLE):
        return "worse"
    return "better" if new < old * (1 - NOTICEABLE) else ""


def _differences(first: Manifest, second: Manifest) -> list[str]:
    notes = []
    for name in type(first.arguments).model_fields:
        a, b = getattr(first.arguments, name), getattr(second.arguments, name)
        if a != b:
            notes.append(f"The argument {name} differs: {a} and {b}.")
    for what in ("runs_on", "subjects", "versions", "source"):
        a, b = getattr(first, what), getattr(second, what)
        if a != b:
            notes.append(f"The {what} differ: {a} and {b}.")
    return notes
