"""How many steps ran specialized, as the engine counted them."""

from collections.abc import Iterator

from validate.equivalence.compare.arms import Arms
from validate.equivalence.compare.finding import Check, Finding, check
from validate.records.arm import NANS, StepCount
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
    findings = [*_of_specialized(arms.specialized)]
    for arm in (arms.default, arms.again):
        findings += _of_default(arm)
    for arm in arms:
        findings += _sound(arm)
    steps = arms.specialized.steps
    detail = "no account of the specialized arm's steps"
    if steps is not None:
        specialized, total = steps.share(arms.specialized.manifest.decode_only)
        detail = f"{specialized} of {total} decode and verify steps of the decode-only scenes ran specialized ({steps.source})"
    return check("attestation", detail, findings)


def _of_specialized(arm: Arm) -> Iterator[Finding]:
    manifest = arm.manifest
    if arm.steps is None:
        yield _invalid(f"{manifest.name}: no account of its steps; every one may have fallen back to the default path")
        return
    if not manifest.decode_only:
        yield _invalid(f"{manifest.name}: no scene is declared decode-only, so no share of specialized steps can be asked of it")
    for scene in manifest.decode_only:
        if not arm.steps.share([scene])[1]:
            yield _invalid(f"{manifest.name}: no decode or verify step counted in {scene}", scene)
    specialized, total = arm.steps.share(manifest.decode_only)
    if total and specialized < manifest.minimum * total:
        text = (
            f"{manifest.name}: {specialized / total:.1%} of decode and verify steps ran specialized, {manifest.minimum:.0%} asked"
        )
        yield _invalid(text)


def _of_default(arm: Arm) -> Iterator[Finding]:
    if arm.steps is None:
        yield _invalid(f"{arm.manifest.name}: no account of its steps")
        return
    for scene, counted in arm.steps.by_scene.items():
        specialized = sum(steps.count for steps in counted if steps.path == "specialized")
        if specialized:
            yield _invalid(f"{arm.manifest.name}: {specialized} steps ran specialized", scene)


def _sound(arm: Arm) -> Iterator[Finding]:
    if arm.steps is None:
        return
    if arm.steps.corrupted is None and arm.manifest.environment.get(NANS, "0") != "0":
        yield _invalid(f"{arm.manifest.name}: the engine's count of requests with NaN logits is missing")
    if arm.steps.corrupted:
        text = f"{arm.manifest.name}: the engine counts {arm.steps.corrupted} requests with NaN logits"
        yield Finding(verdict=Verdict.FAIL, text=text)
    if arm.steps.ranks_agree is False:
        yield Finding(verdict=Verdict.FAIL, text=f"{arm.manifest.name}: ranks sampled different tokens")


def _invalid(text: str, scene: str | None = None) -> Finding:
    return Finding(verdict=Verdict.INVALID, text=text, scene=scene)
