"""Lines of a record, added up by stage and subject."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from validate.records.model import Line
from validate.verdict import Verdict


@dataclass
class Row:
    """One subject on one stage. ``largest`` holds, by check, the largest figure as a share of its bound.

    ``untold`` counts, by check and tensor, the measurements that could not have failed; they are not in ``largest``.
    """

    stage: str
    subject: str
    judged: int = 0
    missing: int = 0
    failed: int = 0
    invalid: int = 0
    seconds: float = 0.0
    largest: dict[str, float] = field(default_factory=dict)
    untold: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, line: Line) -> None:
        """Counts one line of this stage and subject."""
        if not line.judged:
            self.missing += 1
            return
        self.judged += 1
        self.seconds += line.seconds
        self.failed += line.verdict is Verdict.FAIL
        self.invalid += line.verdict is Verdict.INVALID
        for m in line.measurements:
            if m.passed and not m.telling:
                self.untold[m.check, m.tensor] = self.untold.get((m.check, m.tensor), 0) + 1
                continue
            self.largest[m.check] = max(self.largest.get(m.check, 0.0), m.ratio)

    @property
    def verdict(self) -> Verdict:
        """The worst of its lines; INVALID if none was judged."""
        if self.judged == 0:
            return Verdict.INVALID
        return Verdict.FAIL if self.failed else Verdict.INVALID if self.invalid else Verdict.PASS

    @property
    def worst_check(self) -> str:
        """The check that came nearest to its bound, or furthest beyond it, with its share: ``rounding 0.84``."""
        if not self.largest:
            return "-"
        check = max(self.largest, key=self.largest.__getitem__)
        return f"{check} {share(self.largest[check])}"


def rows(lines: Iterable[Line]) -> list[Row]:
    """One row a stage and subject, in the order in which they first appear."""
    found: dict[tuple[str, str], Row] = {}
    for line in lines:
        found.setdefault((line.stage, line.subject), Row(line.stage, line.subject)).add(line)
    return list(found.values())


def share(ratio: float) -> str:
    """A figure as a share of its bound, for reading."""
    return f"{ratio:.2f}" if ratio < 1000 else f"{ratio:.1e}"


def markdown(header: Iterable[str], body: Iterable[Iterable[object]]) -> str:
    """A Markdown table."""
    cells = [list(header)]
    cells.append(["---"] * len(cells[0]))
    cells += [[str(cell).replace("|", "\\|") for cell in row] for row in body]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)
