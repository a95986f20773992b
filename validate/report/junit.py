"""``junit.xml`` for CI servers: FAIL is a failure, INCONCLUSIVE and INVALID are errors, missing is skipped."""

import re
from xml.etree import ElementTree as ET

from validate.records.model import Line, Manifest
from validate.report.failures import describe
from validate.verdict import Verdict

# What XML 1.0 cannot hold, not even escaped.
_ILLEGAL = re.compile(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")


def render(manifest: Manifest, lines: list[Line]) -> str:
    """One suite a stage, one test a case and subject; planned cases that were not reached are one error."""
    root = ET.Element("testsuites", name=f"k3-parity numerics {manifest.arguments.profile}")
    for stage in dict.fromkeys(line.stage for line in lines):
        own = [line for line in lines if line.stage == stage]
        suite = ET.SubElement(root, "testsuite", {"name": stage} | _counts(own))
        for line in own:
            _test(suite, manifest, line)
    unreached = manifest.planned - len({line.case for line in lines})
    if unreached:
        suite = ET.SubElement(root, "testsuite", name="not reached", tests="1", failures="0", errors="1", skipped="0")
        test = ET.SubElement(suite, "testcase", classname="run", name="every planned case")
        message = f"{unreached} of {manifest.planned} cases were not reached"
        ET.SubElement(test, "error", type="INVALID", message=message)
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _test(suite: ET.Element, manifest: Manifest, line: Line) -> None:
    names = {"classname": line.stage, "name": f"{line.case} {line.subject}"}
    test = ET.SubElement(suite, "testcase", names, time=f"{line.seconds:.6f}")
    if not line.judged:
        ET.SubElement(test, "skipped", message=clean(line.missing or ""))
    elif line.verdict is not Verdict.PASS:
        kind = "failure" if line.verdict is Verdict.FAIL else "error"
        first = line.error or "; ".join(f"{m.tensor} {m.check} {m.figure:.6g} > {m.bound:.6g}" for m in line.failures)
        entry = ET.SubElement(test, kind, type=str(line.verdict), message=clean(first))
        entry.text = clean(describe(manifest, line))


def _counts(lines: list[Line]) -> dict[str, str]:
    failures = sum(line.judged and line.verdict is Verdict.FAIL for line in lines)
    errors = sum(line.judged and line.verdict in (Verdict.INVALID, Verdict.INCONCLUSIVE) for line in lines)
    skipped = sum(not line.judged for line in lines)
    seconds = sum(line.seconds for line in lines)
    counts = {"tests": len(lines), "failures": failures, "errors": errors, "skipped": skipped}
    return {name: str(value) for name, value in counts.items()} | {"time": f"{seconds:.6f}"}


def clean(text: str) -> str:
    """Text that XML can hold."""
    return _ILLEGAL.sub("?", text)
