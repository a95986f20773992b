"""``summary.md`` of a comparison: the verdict, what ran, the attestation, then every check and the figures behind it."""

from collections.abc import Iterable

from validate.equivalence.compare.comparison import Comparison
from validate.equivalence.compare.forced import Statistic
from validate.equivalence.compare.shown import checks_table, head
from validate.report.tables import markdown
from validate.verdict import Verdict

SHOWN = 20  # findings written out; comparison.json holds them all


def render(comparison: Comparison) -> str:
    """Markdown."""
    compared = comparison.arms[:3]  # without the float32 arm, which is nobody's path
    parts = [head(f"{comparison.verdict}: {compared[2].name} against {compared[0].name}", compared)]
    parts += ["## Checks", checks_table(comparison.checks), "## Steps of the specialized arm", _steps(comparison)]
    found = comparison.findings
    if found:
        parts.append(f"## Not passed: {len(found)}")
        parts += [f"```text\n{comparison.told(finding)}\n```" for finding in found[:SHOWN]]
        if len(found) > SHOWN:
            parts.append(f"{len(found) - SHOWN} more are in comparison.json.")
    if comparison.forced is not None:
        parts += ["## Forced decoding", _forced(comparison)]
    if comparison.greedy:
        parts += ["## Greedy decoding", _greedy(comparison)]
    if comparison.timings:
        parts += ["## Times, not judged", _timings(comparison)]
    parts += ["## What the common comparison finds", _common(comparison), "## Arms", _arms(comparison)]
    return "\n\n".join(parts) + "\n"


def _steps(comparison: Comparison) -> str:
    if not comparison.steps:
        return "No account of them."
    only = comparison.arms[2].decode_only
    body = [
        [row.scene, "yes" if row.scene in only else "", s.path, s.kind, s.rows, s.q, s.reason, s.count]
        for row in comparison.steps
        for s in [row.steps]
    ]
    return markdown(["scene", "decode-only", "path", "kind", "rows", "q", "why not specialized", "steps"], body)


def _forced(comparison: Comparison) -> str:
    assert comparison.forced is not None
    statistics = comparison.forced.statistics
    shown = [s for s in statistics if s.group == "all" or s.verdict is Verdict.FAIL]
    undecided = [s for s in statistics if s.group != "all" and s.verdict is Verdict.INCONCLUSIVE]
    text = [
        f"Allowed is the greater of {comparison.multiple:.3g} times the {comparison.noise} figure and of what the dtype's "
        f"rounding makes of it ({comparison.floor:.3g} nats of a logit; validate/equivalence/compare/allowance.py). "
        "Bounds are of specialized less allowed.",
        _statistics(shown, comparison.noise),
        f"The divergence's tail, of which only the sum is recorded, may add {comparison.forced.kl_lacking:.2g} nats a token.",
    ]
    if undecided:
        named = ", ".join(f"{s.name} of {s.group}" for s in undecided)
        text.append(f"Within what is allowed, but not shown to be, in parts of the requests: {named}.")
    return "\n\n".join(text)


def _statistics(statistics: Iterable[Statistic], noise: str) -> str:
    header = ["statistic", "of", "requests", "tokens", "specialized", noise, "allowed", "low", "high", "p adjusted", "verdict"]
    return markdown(
        header,
        [
            [s.name, s.group, s.requests, s.tokens]
            + [f"{value:.3g}" for value in (s.specialized, s.noise, s.allowed, s.low, s.high, s.p)]
            + [s.verdict]
            for s in statistics
        ],
    )


def _greedy(comparison: Comparison) -> str:
    parted = [("specialized", d) for d in comparison.greedy if d.triage != "identical"] + [
        ("again", d) for d in comparison.greedy_again if d.triage != "identical"
    ]
    same = [sum(d.triage == "identical" for d in side) for side in (comparison.greedy, comparison.greedy_again)]
    text = f"Identical to the default arm's: {same[0]} of {len(comparison.greedy)} answers, {same[1]} of the A/A arm's."
    if not parted:
        return text
    body = [
        [arm, f"{d.scene}/{d.request}", d.position, d.triage, *(d.tokens or ("", "")), *map(_nats, d.margins or ("", "")), d.text]
        for arm, d in parted
    ]
    header = ["arm", "request", "position", "triage", "default token", "its token", "default margin", "its margin", "why"]
    return f"{text}\n\n{markdown(header, body)}"


def _nats(margin: float | str | None) -> str:
    return "not among its best" if margin is None else margin if isinstance(margin, str) else f"{margin:.4g}"


def _timings(comparison: Comparison) -> str:
    header = ["scene", "figure", "requests", "default", "A/A", "specialized", "specialized / default", "95 % interval"]
    body = [
        [
            t.scene,
            t.figure,
            t.requests,
            *(f"{v:.4g}" for v in (t.default, t.again, t.specialized, t.ratio)),
            f"{t.low:.3g} to {t.high:.3g}",
        ]
        for t in comparison.timings
    ]
    return f"Medians; intervals by drawing requests.\n\n{markdown(header, body)}"


def _common(comparison: Comparison) -> str:
    found = ", ".join(f"{c.scene}/{c.request} at {c.position}" for c in comparison.common_practice)
    return (
        f"Each arm's token among the other's five best: {len(comparison.common_practice)} of {comparison.compared} requests fail"
        + (f": {found}." if found else ".")
    )


def _arms(comparison: Comparison) -> str:
    lines = [
        f"- {arm.name}: decode_backend {arm.decode_backend}, recorded {arm.start} in {folder}"
        for arm, folder in zip(comparison.arms, comparison.folders, strict=True)
    ]
    arm = comparison.arms[0]
    lines.append(
        f"- model {arm.model}, scenes {arm.plan}, source {arm.source}, commit {arm.commit}{' and changes' if arm.dirty else ''}"
    )
    lines.append(f"- {', '.join(f'{name} {version}' for name, version in arm.versions.items())}")
    return "\n".join(lines)
