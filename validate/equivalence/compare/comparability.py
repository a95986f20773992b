"""Whether arms may be compared at all: one engine but for ``decode_backend``, the same requests, all answered."""

import math
from collections.abc import Iterator
from typing import Any

from validate.equivalence.compare.arms import Arms, Pair
from validate.equivalence.compare.finding import Check, Finding, at, check
from validate.records.arm import SPECIALIZED, ArmManifest, EngineManifest
from validate.records.arm_folder import Arm
from validate.verdict import Verdict

# What may differ; a planted arm is named as such in every report. Servers have their own addresses: whether there is one must
# agree.
MAY_DIFFER = {"name", "arm_set", "decode_backend", "start", "end", "planted", "served", "machine"}
# The float32 arm decodes the forced tokens alone, in another dtype, of which more or fewer fit in a cache block.
IN_FLOAT32 = ("engine.dtype", "engine.block_size", "rounds_to", "scenes", "decode_only", "plan", "planned")
# Against golden records, in which an older vLLM or suite ran on another machine of the kind: what is judged then is all of it.
OF_ANOTHER_TIME = {
    "versions",
    "source",
    "commit",
    "dirty",
    "machine.system",
    "machine.cpu",
    "machine.cores",
    "machine.gpus",
    "machine.image",
}


def same_engine(arms: Arms, golden: bool = False) -> Check:
    """INVALID with one finding for each difference between manifests that is not ``decode_backend``.

    ``golden``: both default arms are golden records; what they may differ in is said, and no finding.
    """
    default, again, specialized = (arm.manifest for arm in arms)
    found, apart = list(engines_apart(default, again, MAY_DIFFER)), list(engines_apart(default, specialized, MAY_DIFFER))
    allowed = [line for line in apart if golden and any(line.startswith(name) for name in OF_ANOTHER_TIME)]
    found += [line for line in apart if line not in allowed]
    if default.decode_backend != again.decode_backend:
        found.append(f"decode_backend: {default.name} has {default.decode_backend}, {again.name} has {again.decode_backend}")
    if specialized.decode_backend != SPECIALIZED:
        found.append(f"decode_backend: {specialized.name} has {specialized.decode_backend}, not {SPECIALIZED}")
    if arms.float32 is not None:
        found += differences(default, arms.float32.manifest, IN_FLOAT32)
        own = arms.float32.manifest
        if own.rounds_to != "float32":
            found.append(f"rounds_to: {own.name} has {own.rounds_to}, not float32")
        if own.decode_backend != default.decode_backend:
            found.append(f"decode_backend: {default.name} has {default.decode_backend}, {own.name} has {own.decode_backend}")
    if len({arm.folder.resolve() for arm in arms}) < 3:
        found.append("one folder is given twice: an arm that is compared with itself has no noise")
    names = ", ".join(f"{m.name} ({m.decode_backend})" for m in (default, again, specialized))
    if golden:
        names += f"; golden default arms of {default.start}" + "".join(f"; {line}" for line in allowed)
    return check("same engine", names, (Finding(verdict=Verdict.INVALID, text=text) for text in found))


def differences(first: ArmManifest, second: ArmManifest, ignored: tuple[str, ...] = ()) -> list[str]:
    """What differs though it must not, a line each; ``ignored`` are dotted names that may differ, too."""
    return [line for line in engines_apart(first, second, MAY_DIFFER) if line.split(":")[0] not in ignored]


def complete(arms: Arms) -> Check:
    """INVALID with one finding for each request that an arm lacks, did not answer, or was asked otherwise."""
    keys = [{t.key for t in arm.transcripts} for arm in arms]
    every = set().union(*keys)
    found: list[Finding] = []
    for arm, own in zip(arms, keys, strict=True):
        name = arm.manifest.name
        if arm.manifest.end is None:
            found.append(Finding(verdict=Verdict.INVALID, text=f"{name}: the recording has no end; resume it"))
        if len(own) != arm.manifest.planned:
            text = f"{name}: {len(own)} requests recorded, {arm.manifest.planned} planned"
            found.append(Finding(verdict=Verdict.INVALID, text=text))
        for key in sorted(every - own):
            scene, request = key.split("/", 1)
            found.append(Finding(verdict=Verdict.INVALID, text=f"missing in {name}", scene=scene, request=request))
        found += [at(t, Verdict.INVALID, f"error in {name}: {t.error}") for t in arm.transcripts if t.error is not None]
        found += _shapes(arm)
    pairs = arms.pairs()
    found += [finding for pair in pairs for finding in _asked(pair)]
    if arms.float32 is not None:
        found += _in_float32(arms.float32, pairs)
    return check("complete", f"{len(pairs)} of {len(every)} requests in all three arms", found)


def engines_apart(first: EngineManifest, second: EngineManifest, may_differ: set[str]) -> Iterator[str]:
    """A line for each field that differs and must not. Of a machine its memory may, and of servers their addresses."""
    names = f"{first.name} has", f"{second.name} has"
    for field in type(first).model_fields:
        if field not in may_differ:
            yield from apart(field, getattr(first, field), getattr(second, field), names)
    yield from apart("machine", first.machine.kind, second.machine.kind, names)
    if bool(first.served) != bool(second.served):
        yield f"served: {names[0]} {first.served or 'none'}, {names[1]} {second.served or 'none'}"


def apart(name: str, first: Any, second: Any, names: tuple[str, str]) -> Iterator[str]:
    """A line a difference between two values, of dictionaries a line a key; ``names``: "default has", "specialized has"."""
    if isinstance(first, dict) and isinstance(second, dict):
        for key in sorted({*first, *second}):
            yield from apart(f"{name}.{key}", first.get(key), second.get(key), names)
    elif first != second:
        yield f"{name}: {names[0]} {first}, {names[1]} {second}"


def _shapes(arm: Arm) -> Iterator[Finding]:
    for t in arm.transcripts:
        if t.error is None and not len(t.tokens) == len(t.logprobs) == len(t.top):
            text = f"{arm.manifest.name}: {len(t.tokens)} tokens, {len(t.logprobs)} logprobs, {len(t.top)} best tokens"
            yield at(t, Verdict.INVALID, text)


def _in_float32(arm: Arm, pairs: list[Pair]) -> Iterator[Finding]:
    """What the float32 arm lacks: every forced request, or every one where none is forced, asked the same, with logprobs."""
    name = arm.manifest.name
    if arm.manifest.end is None:
        yield Finding(verdict=Verdict.INVALID, text=f"{name}: the recording has no end; resume it")
    yield from _shapes(arm)
    for pair in [pair for pair in pairs if pair.default.kind == "forced"] or pairs:
        forced = pair.default.kind == "forced"
        if pair.noise is None:
            yield at(pair.default, Verdict.INVALID, f"missing in {name}")
        elif pair.noise.prompt != pair.default.prompt or (forced and pair.noise.tokens != pair.default.tokens):
            yield at(pair.default, Verdict.INVALID, f"{name} was asked something else, or was not forced to the end")
        elif not all(map(math.isfinite, (*pair.noise.logprobs, *(v for top in pair.noise.top for v in top.logprobs)))):
            yield at(pair.default, Verdict.INVALID, f"{name} has a logprob that is no number: it is no measure of noise")


def _asked(pair: Pair) -> Iterator[Finding]:
    first = pair.default
    for other in (pair.again, pair.specialized):
        for field in ("kind", "prompt", "seed"):
            own_seed = field == "seed" and other is pair.again and first.kind == "sampled"  # the A/A arm's samples (order.py)
            if getattr(first, field) != getattr(other, field) and not own_seed:
                yield at(first, Verdict.INVALID, f"the {field} is not the same in all arms")
        if first.kind == "forced" and first.tokens != other.tokens:
            yield at(first, Verdict.INVALID, "forced tokens are not the same in all arms: not forced, or not to the end")
