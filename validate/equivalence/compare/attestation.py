"""How many steps ran specialized, as the engine counted them."""

from collections.abc import Iterator, Mapping, Sequence

from validate.equivalence.compare.arms import Arms
from validate.equivalence.compare.finding import Check, Finding, check
from validate.records.arm import NANS, StepCount, Steps
from validate.records.arm_folder import Arm
from validate.records.model import Record
from validate.verdict import Verdict


class Row(Record):
    """Steps of one scene of the specialized arm alike in all of this."""

    scene: str
    steps: StepCount


def table(arm: Arm) -> tuple[Row, ...]:
    """All steps of an arm, by scene."""
    by_scene = arm.steps.by_scene if arm.steps else {}
    return tuple(Row(scene=scene, steps=steps) for scene, counted in by_scene.items() for steps in counted)


def attested(arms: Arms) -> Check:
    """INVALID unless the specialized arm's share reaches its minimum and the default arms have no specialized step.

    Requests with NaN logits and ranks that sampled different tokens are FAIL.
    """
    manifest = arms.specialized.manifest
    findings = [*of_specialized(manifest.name, arms.specialized.steps, manifest.decode_only, manifest.minimum)]
    for arm in (arms.default, arms.again, *((arms.float32,) if arms.float32 else ())):
        findings += of_default(arm.manifest.name, arm.steps)
    for arm in arms:
        findings += sound(arm.manifest.name, arm.steps, arm.manifest.environment)
    steps = arms.specialized.steps
    detail = "no account of the specialized arm's steps"
    if steps is not None:
        specialized, total = steps.share(arms.specialized.manifest.decode_only)
        detail = f"{specialized} of {total} decode and verify steps of the decode-only scenes ran specialized ({steps.source})"
    return check("attestation", detail, findings)


def of_specialized(name: str, steps: Steps | None, scenes: Sequence[str], minimum: float) -> Iterator[Finding]:
    """INVALID unless at least the share ``minimum`` of the scenes' decode and verify steps ran specialized."""
    if steps is None:
        yield _invalid(f"{name}: no account of its steps; every one may have fallen back to the default path")
        return
    if not scenes:
        yield _invalid(f"{name}: no scene is declared decode-only, so no share of specialized steps can be asked of it")
    for scene in scenes:
        if not steps.share([scene])[1]:
            yield _invalid(f"{name}: no decode or verify step counted in {scene}", scene)
    specialized, total = steps.share(scenes)
    if total and specialized < minimum * total:
        text = f"{name}: {specialized / total:.1%} of decode and verify steps ran specialized, {minimum:.0%} asked"
        yield _invalid(text)


def of_default(name: str, steps: Steps | None) -> Iterator[Finding]:
    """INVALID for a specialized step of a default arm."""
    if steps is None:
        yield _invalid(f"{name}: no account of its steps")
        return
    for scene, counted in steps.by_scene.items():
        specialized = sum(step.count for step in counted if step.path == "specialized")
        if specialized:
            yield _invalid(f"{name}: {specialized} steps ran specialized", scene)


def sound(name: str, steps: Steps | None, environment: Mapping[str, str]) -> Iterator[Finding]:
    """FAIL for requests with NaN logits and ranks that sampled different tokens; INVALID without the count that was asked for."""
    if steps is None:
        return
    if steps.corrupted is None and environment.get(NANS, "0") != "0":
        yield _invalid(f"{name}: the engine's count of requests with NaN logits is missing")
    if steps.corrupted:
        yield Finding(verdict=Verdict.FAIL, text=f"{name}: the engine counts {steps.corrupted} requests with NaN logits")
    if steps.ranks_agree is False:
        yield Finding(verdict=Verdict.FAIL, text=f"{name}: ranks sampled different tokens")


def _invalid(text: str, scene: str | None = None) -> Finding:
    return Finding(verdict=Verdict.INVALID, text=text, scene=scene)
