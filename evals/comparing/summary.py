"""``summary.md`` of a comparison of evals: the verdict, what ran, alarms and checks first, then the figures behind them."""

import json

from evals.comparing import lengths, stopping
from evals.comparing.comparison import Comparison
from evals.comparing.scores import points
from validate.equivalence.compare.shown import checks_table, head
from validate.report.tables import markdown

SHOWN = 30  # findings written out; comparison.json holds them all
FLIPPED = 15  # items of each task; comparison.json holds more


def render(comparison: Comparison) -> str:
    """Markdown. Nothing of any content is in it."""
    default, specialized = comparison.arms[0], comparison.arms[-1]
    parts = [head(f"{comparison.verdict}: {specialized.name} against {default.name}", comparison.arms)]
    parts += [f"**Alarm**: {alarm}." for alarm in comparison.alarms]
    parts.append(checks_table(comparison.checks))
    if comparison.tasks:
        parts += ["## Scores", _scores(comparison)]
    found = comparison.findings
    if found:
        parts.append(f"## Not passed: {len(found)}")
        parts.append("\n".join(["```text", *(finding.line for finding in found[:SHOWN]), "```"]))
        if len(found) > SHOWN:
            parts.append(f"{len(found) - SHOWN} more are in comparison.json.")
    if comparison.ends:
        parts += ["## How responses end", _ends(comparison)]
    if comparison.lengths:
        parts += ["## Lengths", _lengths(comparison)]
    if comparison.strata:
        parts += ["## Strata, not judged", _strata(comparison)]
    if comparison.flipped:
        parts += ["## Flipped items", _flipped(comparison)]
    return "\n\n".join([*parts, "## Arms", _arms(comparison)]) + "\n"


def _scores(comparison: Comparison) -> str:
    header = ["task", "items x repeats", "pairs", "default", "specialized", "difference", "95 % bounds", "by drawing items"]
    header += ["margin", "p of no loss", "adjusted", "pairs that differ", "loss found", "A/A", "verdict"]
    body = [
        [
            f"{t.name} ({t.metric})",
            f"{t.items} x {t.repeats}",
            f"{t.pairs} of {t.asked}",
            f"{100 * t.default:.2f}",
            f"{100 * t.specialized:.2f}",
            points(t.difference),
            f"{points(t.low)} to {points(t.high)}",
            f"{points(t.bootstrap[0])} to {points(t.bootstrap[1])}",
            f"{100 * t.margin:g}",
            f"{t.p:.3g} ({t.test})",
            f"{t.adjusted:.3g}",
            f"-{t.default_only} +{t.specialized_only}",
            f"{100 * t.found:.2f}",
            "not run" if t.again is None else points(t.again[0]),
            t.verdict,
        ]
        for t in comparison.tasks
    ]
    return "\n\n".join(
        [
            markdown(header, body),
            "Points of 100; specialized less default, means over items of the pairs without an error. Bounds are one-sided. "
            "*Loss found*: a true loss of that size fails such a run with probability 80 %. Both arms were recorded alike; no "
            "published score is used.",
            f"{stopping.says(comparison.evidence)}.",
        ]
    )


def _ends(comparison: Comparison) -> str:
    body = [
        [e.task, e.name, *(f"{n} ({n / e.asked:.2%})" for n in (e.default, e.specialized))]
        + (["", "", ""] if e.low is None or e.high is None else [f"{points(e.low)} to {points(e.high)}", _p(e.p), _p(e.adjusted)])
        + [e.verdict or "not judged"]
        for e in comparison.ends
        if e.default or e.specialized
    ]
    if not body:
        return "Every response has an answer."
    header = ["task", "end", "default", "specialized", "growth in points", "p of no growth", "adjusted", "verdict"]
    return f"All but scored answers; each counts 0. Errors are no answers.\n\n{markdown(header, body)}"


def _lengths(comparison: Comparison) -> str:
    names = [f"{100 * q:g} %" for q in lengths.QUANTILES[:-1]] + ["longest"]
    body: list[list[object]] = []
    for one in comparison.lengths:
        ratio = f"{one.ratio:.3f} ({one.low:.3f} to {one.high:.3f})"
        tests = [ratio, _p(one.p), _p(one.adjusted), f"{one.distance:.3f} ({_p(one.distance_p)})"]
        body.append([one.task, "default", *(f"{value:.0f}" for value in one.default), "", "", "", ""])
        body.append([one.task, "specialized", *(f"{value:.0f}" for value in one.specialized), *tests])
    header = ["task", "arm", *names, "ratio (95 %)", "p", "adjusted", "largest distance (p)"]
    return f"Generated tokens. The ratio is of the same items.\n\n{markdown(header, body)}"


def _strata(comparison: Comparison) -> str:
    of = {"stratum": "", "needles": "all lengths", "area": "area over lengths"}
    body = [
        [s.task, s.name, of[s.kind], s.items, f"{100 * s.default:.2f}", f"{100 * s.specialized:.2f}", points(s.difference)]
        for s in comparison.strata
    ]
    return markdown(["task", "stratum", "of", "items", "default", "specialized", "difference"], body)


def _flipped(comparison: Comparison) -> str:
    counts = ", ".join(f"{task} {count}" for task, count in comparison.flips.items())
    shown = [row for task in comparison.flips for row in [f for f in comparison.flipped if f.task == task][:FLIPPED]]
    body = [[f.task, f.item, f.stratum, f"{f.default:g}", f"{f.specialized:g}", f.pairs] for f in shown]
    header = ["task", "item", "stratum", "default", "specialized", "pairs"]
    return f"Items whose sums of scores differ: {counts}. The largest differences of each task:\n\n{markdown(header, body)}"


def _arms(comparison: Comparison) -> str:
    arm = comparison.arms[0]
    lines = [
        f"- {one.name}: decode_backend {one.decode_backend}, recorded {one.start} to {one.end} in {folder}"
        for one, folder in zip(comparison.arms, comparison.folders, strict=True)
    ]
    lines.append("- all alike but for decode_backend, or the check *same engine* says in what")
    lines.append(f"- suite {arm.suite}, model {arm.model}, {arm.concurrency} requests at once at most")
    lines.append(f"- engine {json.dumps(arm.engine, sort_keys=True)}")
    for plan in arm.tasks:
        lines.append(f"- {plan.name}: {plan.data}, digest {plan.digest}, {json.dumps(plan.generation, sort_keys=True)}")
    lines.append(f"- source {arm.source}, commit {arm.commit}{' and changes' if arm.dirty else ''}")
    lines.append(f"- {', '.join(f'{name} {version}' for name, version in arm.versions.items())}")
    lines.append(f"- {', '.join(arm.machine.gpus) or arm.machine.cpu}, {arm.machine.system}")
    return "\n".join(lines)


def _p(p: float | None) -> str:
    return "" if p is None else f"{p:.3g}"
