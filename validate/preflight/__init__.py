"""The pre-flight: what stands in the way of a deployment before anything is started.

vLLM refuses some deployments when it starts, one reason at a time, and does not notice others that its specialized path
was not written for. ``findings`` names all of both kinds at once. It knows vLLM 0.33.0 from reading it, and imports
nothing of it.
"""

from collections.abc import Iterable

from validate.preflight import dimensions, gaps, refusals
from validate.preflight.deployment import Deployment
from validate.preflight.finding import Finding
from validate.verdict import Verdict


def findings(deployment: Deployment) -> list[Finding]:
    """Everything that is wrong with a deployment on the specialized path, what vLLM refuses first; empty if nothing is."""
    found = [*refusals.findings(deployment), *gaps.findings(deployment), *dimensions.findings(deployment)]
    return sorted(found, key=lambda finding: finding.severity != "refuse")  # sorted keeps the order within each


def verdict(found: Iterable[Finding]) -> Verdict:
    """PASS without findings, INCONCLUSIVE with warnings only; INVALID where vLLM refuses or the path is not made for it."""
    severities = {finding.severity for finding in found}
    if "refuse" in severities:
        return Verdict.INVALID
    return Verdict.INCONCLUSIVE if severities else Verdict.PASS
