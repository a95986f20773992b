"""``junit.xml`` of a comparison: FAIL is a failure, INCONCLUSIVE and INVALID are errors, a check that was not run is skipped."""

from collections.abc import Callable, Iterable
from xml.etree import ElementTree as ET

from validate.equivalence.compare.finding import Check, Finding
from validate.report.junit import clean
from validate.verdict import Verdict


def render(layer: str, checks: Iterable[Check], told: Callable[[Finding], str]) -> str:
    """One suite, one test a check. ``layer``: equivalence, evals; ``told``: a finding for a person."""
    checks = tuple(checks)
    verdicts = [check.verdict for check in checks]
    counts = {
        "tests": len(verdicts),
        "failures": verdicts.count(Verdict.FAIL),
        "errors": verdicts.count(Verdict.INCONCLUSIVE) + verdicts.count(Verdict.INVALID),
        "skipped": verdicts.count(None),
    }
    root = ET.Element("testsuites", name=f"k3-parity {layer}")
    suite = ET.SubElement(root, "testsuite", {"name": "comparison"} | {name: str(value) for name, value in counts.items()})
    for check in checks:
        test = ET.SubElement(suite, "testcase", classname=layer, name=clean(check.name))
        if check.verdict is None:
            ET.SubElement(test, "skipped", message=clean(check.detail))
        elif check.verdict is not Verdict.PASS:
            kind = "failure" if check.verdict is Verdict.FAIL else "error"
            first = check.findings[0].placed if check.findings else check.detail
            entry = ET.SubElement(test, kind, type=str(check.verdict), message=clean(first))
            entry.text = clean("\n".join(map(told, check.findings)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"
