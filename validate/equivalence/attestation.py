"""What a record must prove, from what the engine itself said. Share: of decode and verify steps in ``decode_only`` scenes."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from validate.equivalence.arm import Name
from validate.equivalence.scenes import Scene
from validate.errors import InputError
from validate.records.arm import DECODING, StepCount, Steps, Transcript


@dataclass(frozen=True)
class Counted:
    """What the workers said of one stretch. ``ranks_agree`` is None of one rank. ``steps`` is None where nothing counts."""

    source: str
    steps: tuple[StepCount, ...] | None
    ranks_agree: bool | None


def counted(said: Sequence[Mapping[str, Any]]) -> Counted:
    """Of all workers' ``k3_parity_steps``. InputError if they said something else."""
    try:
        steps = [None if one["steps"] is None else tuple(StepCount.model_validate(step) for step in one["steps"]) for one in said]
        source, sampled = str(said[0]["source"]), {one["sampled"] for one in said}
    except (KeyError, IndexError, TypeError, ValidationError) as error:
        raise InputError(f"the engine's workers give no step counts that can be read: {error!s:.200}") from error
    agree = None if len(said) == 1 else len(sampled) == 1 and all(one == steps[0] for one in steps)
    return Counted(source, steps[0], agree)


def added(before: tuple[StepCount, ...], new: tuple[StepCount, ...]) -> tuple[StepCount, ...]:
    """The counts of two stretches."""
    counts: dict[StepCount, int] = {}
    for step in (*before, *new):
        key = step.model_copy(update={"count": 0})
        counts[key] = counts.get(key, 0) + step.count
    return tuple(key.model_copy(update={"count": n}) for key, n in counts.items())


def share(steps: Steps, scenes: Iterable[Scene]) -> tuple[int, int]:
    """``Steps.share`` of the ``decode_only`` scenes."""
    return steps.share(scene.name for scene in scenes if scene.decode_only)


def objections(
    name: Name, minimum: float, scenes: Sequence[Scene], steps: Steps, transcripts: Iterable[Transcript], counts_nans: bool
) -> list[str]:
    """Why a record proves nothing, one line each; empty if it may be compared."""
    specialized, total = share(steps, scenes)
    found = unproven(name, minimum, steps, (specialized, total), "decode_only scene") + unsound(steps, counts_nans)
    for one in transcripts:
        if any(not math.isfinite(value) for value in one.logprobs):
            found.append(f"{one.key}: a log-probability is not finite")
            break
    return found


def unproven(name: Name, minimum: float, steps: Steps, share: tuple[int, int], where: str) -> list[str]:
    """Why it is not known that the arm's engine ran the path that it was to run.

    ``share``: the decode steps ``where`` that ran specialized, and all of them.
    """
    specialized, total = share
    if name == "specialized":
        if not any(steps.by_scene.values()):
            return [f"no step is known to have run specialized: {steps.source}"]
        if not total:
            return [f"no {where} has decode steps: the share of specialized steps is unknown"]
        if specialized < minimum * total:
            return [f"{specialized} of {total} decode steps ran specialized, {minimum:.0%} are wanted: {_reasons(steps)}"]
    elif any(step.path == "specialized" for counts in steps.by_scene.values() for step in counts):
        return [f"the arm {name} ran specialized steps: its engine was started with the other decode_backend"]
    return []


def unsound(steps: Steps, counts_nans: bool) -> list[str]:
    """What the engine's own account says is wrong."""
    found = []
    if steps.ranks_agree is False:
        found.append("the ranks did not sample the same tokens, or did not run the same steps")
    if steps.corrupted:
        found.append(f"the engine counted {steps.corrupted} requests with NaN logits")
    if counts_nans and steps.corrupted is None:
        found.append("the engine's count of requests with NaN logits is missing")
    return found


def _reasons(steps: Steps) -> str:
    reasons: dict[str, int] = {}
    for step in (s for counts in steps.by_scene.values() for s in counts):
        if step.path == "default" and step.kind in DECODING:
            reasons[step.reason] = reasons.get(step.reason, 0) + step.count
    return ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items(), key=lambda item: -item[1]))
