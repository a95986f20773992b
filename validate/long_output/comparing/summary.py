"""``summary.md`` of a comparison of long outputs."""

from validate.equivalence.compare import summary as engines
from validate.equivalence.compare.shown import checks_table, head
from validate.long_output.comparing.comparison import LongComparison
from validate.report.tables import markdown

SHOWN = 20  # findings written out; comparison.json holds them all


def render(found: LongComparison) -> str:
    """Markdown."""
    compared = found.engines.arms[:3]
    title = f"{found.verdict}: long outputs of {compared[2].name} against {compared[0].name}"
    parts = [head(title, compared), "## Checks", checks_table(found.checks)]
    if found.findings:
        parts.append(f"## Not passed: {len(found.findings)}")
        parts += [f"```text\n{found.told(finding)}\n```" for finding in found.findings[:SHOWN]]
    if found.rates:
        parts += ["## Signs of degeneration", _rates(found)]
    if found.lengths is not None:
        parts += ["## Lengths", _lengths(found)]
    if found.growth is not None:
        parts += ["## Differences by position", _growth(found)]
    parts.append(f"# As whole engines\n\n{engines.render(found.engines)}")
    return "\n\n".join(parts) + "\n"


def _rates(found: LongComparison) -> str:
    header = [
        "sign",
        "outputs",
        "default",
        "again",
        "specialized",
        "growth of the rate",
        "granted",
        "p",
        "verdict",
        "first shown",
    ]
    body = []
    for r in found.rates:
        own = sorted((one for one in r.shown if one.arm == "specialized"), key=lambda one: one.position)
        first = f"{own[0].scene}/{own[0].request} at {own[0].position}" if own else ""
        figures = [f"{r.low:.3f} to {r.high:.3f}", f"{r.margin:.3g}" if r.margin else "none", f"{r.p:.2g}"]
        body.append([r.name, r.outputs, r.default, r.again, r.specialized, *figures, r.verdict, first])
    return "Counts are of outputs; bounds are one-sided, 95 %.\n\n" + markdown(header, body)


def _lengths(found: LongComparison) -> str:
    assert found.lengths is not None
    own = found.lengths
    body = [[name, *(f"{v:.0f}" for v in getattr(own, field))] for name, field in _ARMS]
    said = (
        f"Specialized / default: {own.ratio:.3f} ({own.low:.3f} to {own.high:.3f}), again / default: {own.ratio_again:.3f}; "
        f"Wilcoxon p {own.wilcoxon:.2g}, distributions p {own.distributions:.2g}."
    )
    return f"{said}\n\n{markdown(['own tokens', '10 %', 'median', '90 %', 'most'], body)}"


_ARMS = (("default", "default"), ("again", "again"), ("specialized", "specialized"))


def _growth(found: LongComparison) -> str:
    assert found.growth is not None
    own = found.growth
    body = [[band.start, band.requests, f"{band.ratio:.3g}", f"{band.low:.3g}"] for band in own.bands]
    said = (
        f"Ratio of a typical difference to the {own.noise} noise. Over a request it becomes {own.rise:.3g} times as large "
        f"({own.low:.3g} to {own.high:.3g}); {own.allowed:.3g} is allowed anywhere"
        + (f", and exceeded from position {own.excess} on." if own.excess is not None else ".")
    )
    return f"{said}\n\n{markdown(['positions from', 'requests', 'ratio', 'lower bound'], body)}"
