"""``junit.xml`` of what was checked: one test a check."""

from collections.abc import Callable, Iterable

from validate.equivalence.compare.finding import Check, Finding
from validate.report import junit


def render(layer: str, checks: Iterable[Check], told: Callable[[Finding], str]) -> str:
    """One suite. ``layer``: equivalence, evals; ``told``: a finding for a person."""
    return junit.render(f"k3-parity {layer}", {"comparison": [_test(layer, check, told) for check in checks]})


def _test(layer: str, check: Check, told: Callable[[Finding], str]) -> junit.Entry:
    said = check.findings[0].placed if check.findings else check.detail
    return junit.Entry(layer, check.name, check.verdict, said, "\n".join(map(told, check.findings)))
