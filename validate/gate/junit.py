"""``junit.xml`` of a gate: a test a step. FAIL is a failure, INCONCLUSIVE and INVALID are errors, what was not run is skipped."""

from xml.etree import ElementTree as ET

from validate.gate.record import Gate
from validate.gate.summary import first
from validate.report.junit import clean
from validate.verdict import Verdict


def render(gate: Gate) -> str:
    """One suite."""
    verdicts = [one.verdict for one in gate.steps]
    counts = {
        "tests": len(verdicts),
        "failures": verdicts.count(Verdict.FAIL),
        "errors": verdicts.count(Verdict.INCONCLUSIVE) + verdicts.count(Verdict.INVALID),
        "skipped": verdicts.count(None),
    }
    root = ET.Element("testsuites", name=f"k3-parity gate {gate.profile.name}")
    suite = ET.SubElement(root, "testsuite", {"name": gate.profile.name} | {name: str(value) for name, value in counts.items()})
    for one in gate.steps:
        test = ET.SubElement(suite, "testcase", classname=f"gate.{one.step.layer}", name=one.step.name, time=f"{one.seconds:.1f}")
        if one.verdict is None:
            ET.SubElement(test, "skipped", message=clean(first(gate, one)))
        elif one.verdict is not Verdict.PASS:
            kind = "failure" if one.verdict is Verdict.FAIL else "error"
            entry = ET.SubElement(test, kind, type=str(one.verdict), message=clean(first(gate, one)))
            entry.text = clean("\n".join(one.reasons))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"
