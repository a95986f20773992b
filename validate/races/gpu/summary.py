"""``summary.md`` of a run on a GPU."""

from collections.abc import Sequence

from validate.races.gpu import judging, plan, sanitizer
from validate.races.gpu.record import Manifest, Sanitized, Tried
from validate.races.gpu.stalls import STALLS
from validate.report.tables import markdown
from validate.verdict import Verdict

NOT_JUDGED = "not judged"
TRIALS = (
    "Each repeat has another payload than the last and is held against the undisturbed result bit for bit; mailboxes must be "
    "armed again. Each trial's first launch is its kernel's first, in a fresh process. The control is the same trial on a copy "
    "of vLLM's file without the fix, and must fail; undisturbed, it shows whether harder running would have found the fault."
)
SESSIONS = (
    "Each session launches one kernel twice under one of compute-sanitizer's tools. A name with a fault at its end is a copy of "
    "vLLM's file that the tool must report: without one its silence would prove nothing."
)


def ran(manifest: Manifest) -> str:
    """For whoever reads the verdict."""
    return f"What ran: **vLLM's own kernels**, on {manifest.gpu}."


def render(manifest: Manifest, tried: Sequence[Tried], sanitized: Sequence[Sanitized]) -> str:
    """All of a run."""
    done = len(tried) + len(sanitized)
    unjudged = sum(judging.verdict(one) is None for one in tried)
    aside = f", {unjudged} of them not judged" if unjudged else ""
    text = ["# Races on a GPU", f"**{manifest.verdict}**: {done} of {manifest.planned}{aside}.", ran(manifest)]
    if tried:
        text.append(TRIALS)
        header = ["trial", "verdict", "the kernel", "control", "control undisturbed", "what is delayed, and the control's fault"]
        text.append(markdown(header, map(_row, tried)))
        wrong = [one for one in tried if judging.verdict(one) is not Verdict.PASS]
        text += [f"- {judging.why(one)}" for one in wrong]
    if sanitized:
        text += ["## compute-sanitizer", SESSIONS]
        rows = [[one.name, judging.sanitized_verdict(one), _count(one), _reports(one)] for one in sanitized]
        text.append(markdown(["session", "verdict", "reports", "what"], rows))
        missing = [Sanitized(tool=tool, kernel=kernel, sizes=sizes).name for tool, kernel, sizes in sanitizer.ENDLESS]
        text.append(f"Not looked at, since the tool does not come back: {'; '.join(missing)}.")
        notes = {(one.name, report.places): report.explained for one in sanitized for report in one.reports if report.explained}
        text += [f"- {name}: {', '.join(places)}: no fault: {why}" for (name, places), why in notes.items()]
    where = f"commit {manifest.commit or 'unknown'}{' with changes' if manifest.dirty else ''}, vLLM {manifest.vllm.version}"
    text.append(f"{manifest.start} to {manifest.end}, {where}, {manifest.machine.cpu}")
    return "\n\n".join(text) + "\n"


def _row(one: Tried) -> list[object]:
    delay = f"{STALLS[one.trial.stall].says}; " if one.trial.stall else ""
    outcomes = [judging.outcome(attempt) for attempt in (one.sound, one.control, one.undisturbed)]
    return [one.trial.name, judging.verdict(one) or NOT_JUDGED, *outcomes, delay + plan.says(one.trial)]


def _reports(one: Sanitized) -> str:
    if one.lost is not None:
        return one.lost
    return "; ".join(map(judging.said, judging.unexplained(one)[:3]))


def _count(one: Sanitized) -> str:
    explained = sum(report.count for report in one.reports if report.explained)
    count = sum(report.count for report in one.reports)
    return f"{count}, {explained} of them explained" if explained else f"{count}"
