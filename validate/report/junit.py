"""``junit.xml`` for CI servers: FAIL is a failure, INCONCLUSIVE and INVALID are errors, what was not run is skipped."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from validate.verdict import Verdict

# What XML 1.0 cannot hold, not even escaped.
_ILLEGAL = re.compile(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")


@dataclass(frozen=True)
class Entry:
    """One test. ``verdict`` None: it was not run. ``said``: why not, or what is wrong, in a line; ``text``: all of it."""

    classname: str
    name: str
    verdict: Verdict | None
    said: str
    text: str
    seconds: float = 0.0


def render(title: str, suites: Mapping[str, Sequence[Entry]]) -> str:
    """Suites by name."""
    root = ET.Element("testsuites", name=clean(title))
    for name, entries in suites.items():
        suite = ET.SubElement(root, "testsuite", {"name": clean(name)} | _counts(entries))
        for entry in entries:
            _add(suite, entry)
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _add(suite: ET.Element, entry: Entry) -> None:
    test = ET.SubElement(suite, "testcase", classname=clean(entry.classname), name=clean(entry.name), time=f"{entry.seconds:.6f}")
    if entry.verdict is None:
        ET.SubElement(test, "skipped", message=clean(entry.said))
    elif entry.verdict is not Verdict.PASS:
        kind = "failure" if entry.verdict is Verdict.FAIL else "error"
        ET.SubElement(test, kind, type=str(entry.verdict), message=clean(entry.said)).text = clean(entry.text)


def _counts(entries: Sequence[Entry]) -> dict[str, str]:
    verdicts = [entry.verdict for entry in entries]
    counts = {
        "tests": len(entries),
        "failures": verdicts.count(Verdict.FAIL),
        "errors": verdicts.count(Verdict.INCONCLUSIVE) + verdicts.count(Verdict.INVALID),
        "skipped": verdicts.count(None),
    }
    return {name: str(value) for name, value in counts.items()} | {"time": f"{sum(entry.seconds for entry in entries):.6f}"}


def clean(text: str) -> str:
    """Text that XML can hold."""
    return _ILLEGAL.sub("?", text)
