"""``junit.xml`` of a sign-off: each record a test, and each part that lacks one; what is refused is no pass."""

from validate.equivalence.compare import junit
from validate.equivalence.compare.finding import Check, Finding
from validate.signoff.report import Report
from validate.verdict import Verdict


def render(report: Report) -> str:
    """One suite. A reason to refuse is an error, a proven defect a failure."""
    checks = []
    for one in report.evidence:
        found = [refusal for refusal in report.refusals if refusal.record == one.source.name and refusal.part == one.part]
        checks.append(_check(f"{one.layer}, {one.part}: {one.source.name}", [f"{r.kind}: {r.why}" for r in found], one.verdict))
    lacking: dict[str, list[str]] = {}
    for refusal in report.refusals:
        if refusal.record is None:
            lacking.setdefault(f"{refusal.layer}, {refusal.part}", []).append(f"{refusal.kind}: {refusal.why}")
    checks += [_check(name, why, Verdict.INVALID) for name, why in lacking.items()]
    return junit.render("signoff", checks, lambda finding: finding.text)


def _check(name: str, why: list[str], verdict: Verdict) -> Check:
    judged = (Verdict.INVALID if verdict is Verdict.PASS else verdict) if why else verdict
    findings = tuple(Finding(verdict=judged, text=text) for text in why)
    return Check(name=name, verdict=judged, detail=name, findings=findings)
