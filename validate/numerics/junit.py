"""``junit.xml`` of a run of numerics: one suite a stage, one test a case and subject."""

from validate.records.model import Line, Manifest
from validate.report import junit
from validate.report.failures import describe
from validate.verdict import Verdict


def render(manifest: Manifest, lines: list[Line]) -> str:
    """Planned cases that were not reached are one error, in a suite of their own."""
    suites: dict[str, list[junit.Entry]] = {}
    for line in lines:
        suites.setdefault(line.stage, []).append(_test(manifest, line))
    if unreached := manifest.planned - len({line.case for line in lines}):
        said = f"{unreached} of {manifest.planned} cases were not reached"
        suites["not reached"] = [junit.Entry("run", "every planned case", Verdict.INVALID, said, said)]
    return junit.render(f"k3-parity numerics {manifest.arguments.profile}", suites)


def _test(manifest: Manifest, line: Line) -> junit.Entry:
    name = f"{line.case} {line.subject}"
    if not line.judged:
        return junit.Entry(line.stage, name, None, line.missing or "", "", line.seconds)
    said = line.error or "; ".join(f"{m.tensor} {m.check} {m.figure:.6g} > {m.bound:.6g}" for m in line.failures)
    return junit.Entry(line.stage, name, line.verdict, said, describe(manifest, line), line.seconds)
