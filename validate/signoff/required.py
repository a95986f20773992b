"""What a sign-off asks for, and every reason for which it is refused."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from validate.records.model import Record
from validate.signoff.evidence import DRAFTS, NO_DRAFTS, Evidence, Layer
from validate.signoff.reading import drift, engines, evals, races
from validate.verdict import Verdict, worst

Kind = Literal[
    "failed",
    "missing",
    "partial",
    "emulated",
    "unattested",
    "stale",
    "inconclusive",
    "invalid",
    "planted",
    "unverified",
    "another deployment",
]
TASKS = ("aime25", "gpqa_diamond", "gsm8k", "mrcr")  # the benchmarks that the path's authors name
DEPLOYED = (engines.WHOLE, engines.LONG, engines.COMPANY, evals.PART)
DICTATED = (engines.WHOLE, engines.LONG, engines.COMPANY)  # of dictated tokens, which vLLM takes without drafts alone
IMAGE = re.compile(r"(?:\S+@)?(sha256:[0-9a-f]{64})")  # a digest, of whichever registry: what a tag names changes


@dataclass(frozen=True)
class Part:
    """``on_gb300``: what counts is vLLM's own path on GB300; the others are made on a CPU by their nature."""

    layer: Layer
    name: str
    on_gb300: bool


PARTS = (
    Part("numerics", "numerics", True),
    Part("races", races.MODELS, False),
    Part("races", engines.COMPANY, True),
    Part("equivalence", engines.WHOLE, True),
    Part("equivalence", engines.LONG, True),
    Part("equivalence", drift.PART, False),
    Part("evals", evals.PART, True),
)


class Refusal(Record):
    """One reason. ``part``: of which layer's; ``record``: which one, None where there is none."""

    kind: Kind
    layer: Layer
    part: str
    record: str | None
    why: str


def refusals(evidence: Sequence[Evidence], image: str | None = None) -> list[Refusal]:
    """All reasons, proven defects first; empty if a release may be signed. ``image``: the one that is to be released."""
    found: list[Refusal] = []
    for part in PARTS:
        given = [one for one in evidence if one.part == part.name]
        for drafts in _drafts(part, evidence):
            found += _of_part(part, [one for one in given if drafts in (None, one.drafts) or one.runs_on != "gb300"], drafts)
    for one in evidence:
        found += _of_record(one)
    found += _stale(evidence, image)
    found += _deployments(evidence)
    return sorted(dict.fromkeys(found), key=lambda refusal: refusal.kind != "failed")


def verdict(found: Sequence[Refusal]) -> Verdict:
    """FAIL for a proven defect, INCONCLUSIVE where nothing else is wrong than that something is undecided, else INVALID."""
    of = {"failed": Verdict.FAIL, "inconclusive": Verdict.INCONCLUSIVE}
    return worst([Verdict.PASS, *(of.get(refusal.kind, Verdict.INVALID) for refusal in found)])


def _drafts(part: Part, evidence: Sequence[Evidence]) -> tuple[str | None, ...]:
    """With which drafts a part is asked for, None where they do not matter.

    A deployment with drafts is signed by records with them, and beside them, where tokens have to be dictated, by ones without.
    """
    found = sorted({one.drafts for one in evidence if one.part in DEPLOYED and _counts(one)} - {NO_DRAFTS})
    if part.name not in DEPLOYED or not found:
        return (None,)
    return (NO_DRAFTS, *found) if part.name in DICTATED else (*found,)


def _counts(one: Evidence) -> bool:
    """Whether it is the whole of a part, of vLLM's own path."""
    return one.runs_on == "gb300" and not one.lacks and not one.planted


def _of_part(part: Part, given: Sequence[Evidence], drafts: str | None) -> Iterator[Refusal]:
    with_drafts = "" if drafts is None else " without drafts" if drafts == NO_DRAFTS else f" with the drafts {drafts}"
    if not given:
        yield _missing(part, f"there is no record of it{with_drafts}")
        return
    counting = [one for one in given if one.runs_on == "gb300" or not part.on_gb300]
    if not counting and drafts is not None:
        yield _missing(part, f"there is no record of it on GB300{with_drafts}")
    elif not counting:
        ran = ", ".join(sorted({one.runs_on for one in given}))
        yield _refusal("emulated", given[0], f"it was not run with vLLM's kernels on GB300, but: {ran}")
    whole = [one for one in counting if not one.lacks]
    missed = [task for task in TASKS if not _asked(task, whole)] if part.name == evals.PART else []
    if missed or not whole:
        for one in counting:
            yield from (_refusal("partial", one, f"it is not the whole: {lack}") for lack in one.lacks)
    for task in missed:
        if not _asked(task, counting):
            yield _missing(part, f"{task} was not asked on GB300{with_drafts}")


def _asked(task: str, of: Sequence[Evidence]) -> bool:
    return any(name.startswith(task) for one in of for name in one.data)


def _of_record(one: Evidence) -> Iterator[Refusal]:
    if one.planted:
        yield _refusal("planted", one, f"the fault {one.planted} was planted in it: it tests the suite")
        return
    judged = worst([one.verdict, *(check.verdict for check in one.checks if check.verdict is not None)])
    if judged is Verdict.FAIL:
        first = next((finding for check in one.checks for finding in check.findings if finding.verdict is Verdict.FAIL), None)
        yield _refusal("failed", one, first.line if first else one.headline)
    elif judged is Verdict.INCONCLUSIVE:
        yield _refusal("inconclusive", one, _undecided(one, judged))
    elif judged is Verdict.INVALID:
        yield _refusal("invalid", one, _undecided(one, judged))
    if one.attested is False:
        yield _refusal(
            "unattested", one, f"its steps are not shown to have run on the specialized path: {one.proof or 'not counted'}"
        )
    if one.runs_on == "gb300" and one.weights and one.weights.startswith("name "):
        yield _refusal("unverified", one, f"which weights it served is not known, only their {one.weights}")
    for arm in one.arms:
        if not arm.verified:
            yield _refusal("unverified", one, f"the record of its arm {arm.name} is not among those given, or was never sealed")


def _undecided(one: Evidence, judged: Verdict) -> str:
    first = next((finding for check in one.checks for finding in check.findings if finding.verdict is judged), None)
    return first.line if first else "the run did not end" if one.end is None else one.headline


def _stale(evidence: Sequence[Evidence], image: str | None) -> Iterator[Refusal]:
    """Against the newest record: of the suite's commit all, of vLLM's version and of the image those that ran vLLM's path."""
    if not evidence:
        return
    newest = max(evidence, key=lambda one: one.start)
    models = [one for one in evidence if one.part == races.MODELS]
    deployed = [one for one in evidence if one.runs_on == "gb300"]
    last = max(deployed, key=lambda one: one.start, default=newest)
    wanted = _digest(last.machine.image if image is None else image)
    for one in evidence:
        if one.suite != newest.suite:
            why = f"it was made by commit {one.suite or 'unknown'} of the suite, the newest record by {newest.suite or 'unknown'}"
            yield _refusal("stale", one, why)
        elif one.suite is None or one.dirty is not False:
            yield _refusal("stale", one, "the suite's files were not those of a commit when it was made")
    for one in deployed:
        if one.machine.image is None:
            yield _refusal("stale", one, "which container image it ran in is not recorded: K3_PARITY_IMAGE was not set")
        elif not IMAGE.fullmatch(one.machine.image):
            yield _refusal("stale", one, f"which container image it ran in is not known: {one.machine.image} is no digest")
        elif _digest(one.machine.image) != wanted:
            yield _refusal("stale", one, f"it ran in image {one.machine.image}, not in {wanted}")
        if _version(one) != _version(last):
            yield _refusal("stale", one, f"it ran vLLM {_version(one)}, the newest record {_version(last)}")
    for one in models if deployed else ():
        if not one.lacks and _version(one) != _version(last):
            yield _refusal("stale", one, f"its models are of vLLM {_version(one)}, the newest record ran {_version(last)}")


def _digest(image: str | None) -> str | None:
    found = IMAGE.fullmatch(image or "")
    return found[1] if found else image


def _version(one: Evidence) -> str:
    """Of vLLM, without the distribution's name and what it was built for."""
    return one.vllm.removesuffix(", not run").split(" ")[-1].split("+")[0]


def _deployments(evidence: Sequence[Evidence]) -> Iterator[Refusal]:
    """Engines of one sign-off have the same arguments, but for drafts, and weights; numerics the same tensor parallel size."""
    engines_ = [one for one in evidence if one.part in DEPLOYED and _counts(one)]
    for one in engines_[1:]:
        first = engines_[0]
        apart = [
            f"{name} {one.deployment.get(name, 'unset')} and {first.deployment.get(name, 'unset')}"
            for name in sorted({*one.deployment, *first.deployment} - {DRAFTS})
            if one.deployment.get(name) != first.deployment.get(name)
        ]
        if one.weights != first.weights:
            apart.append(f"weights {one.weights} and {first.weights}")
        if apart:
            yield _refusal("another deployment", one, f"it differs from {first.part} in {', '.join(apart)}")
    stages = [one for one in evidence if one.part == "numerics" and one.runs_on == "gb300" and not one.lacks]
    sizes = [one.deployment.get("tensor_parallel_size") for one in stages]
    served = {one.deployment.get("tensor_parallel_size") for one in engines_}
    for size in served - set(sizes) if sizes else ():
        yield _refusal("another deployment", stages[0], f"its tensor parallel size is {sizes[0]}, that of the engines {size}")


def _missing(part: Part, why: str) -> Refusal:
    return Refusal(kind="missing", layer=part.layer, part=part.name, record=None, why=why)


def _refusal(kind: Kind, one: Evidence, why: str) -> Refusal:
    return Refusal(kind=kind, layer=one.layer, part=one.part, record=one.source.name, why=why)
