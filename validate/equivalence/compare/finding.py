"""What a check of a comparison says."""

from collections.abc import Iterable

from validate.records.arm import Transcript
from validate.records.model import Record
from validate.verdict import Verdict, worst


class Finding(Record):
    """One reason not to pass. ``position`` counts the decoded tokens from 0.

    ``tokens`` are the default path's and the specialized path's at that position; ``margins``, in nats, how far each arm prefers
    its own to the other's, None where the other's is not among its best.
    """

    verdict: Verdict
    text: str
    scene: str | None = None
    request: str | None = None
    position: int | None = None
    tokens: tuple[int, int] | None = None
    margins: tuple[float | None, float | None] | None = None

    @property
    def placed(self) -> str:
        """What was found, and where."""
        where = f"{self.scene}/{self.request}" if self.request is not None else self.scene or ""
        parts = [where, "" if self.position is None else f"position {self.position}"]
        at = ", ".join(part for part in parts if part)
        return f"{at + ': ' if at else ''}{self.text}"

    @property
    def line(self) -> str:
        """All of it for a person."""
        said = f"{self.verdict} {self.placed}"
        if self.tokens is not None:
            for arm, token, margin in zip(("default", "specialized"), self.tokens, self.margins or (None, None), strict=True):
                said += f"; {arm} token {token} (margin {_margin(margin)})"
        return said


class Check(Record):
    """One subject's outcome. ``detail``: the figures that it rests on, in one line; None in ``verdict``: nothing to judge."""

    name: str
    verdict: Verdict | None
    detail: str
    findings: tuple[Finding, ...] = ()


def check(name: str, detail: str, findings: Iterable[Finding]) -> Check:
    """A check with the verdict of its worst finding, PASS without any."""
    found = tuple(sorted(findings, key=lambda finding: finding.verdict is not Verdict.FAIL))
    return Check(name=name, verdict=worst([Verdict.PASS, *(f.verdict for f in found)]), detail=detail, findings=found)


def at(transcript: Transcript, verdict: Verdict, text: str, position: int | None = None) -> Finding:
    """A finding in one request."""
    return Finding(verdict=verdict, text=text, scene=transcript.scene, request=transcript.request, position=position)


def _margin(margin: float | None) -> str:
    return "not among its best" if margin is None else f"{margin:.4g}"
