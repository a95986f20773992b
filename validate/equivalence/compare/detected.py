"""Which check finds a faulty engine first, and after how many decoded tokens: for the detection matrix."""

from dataclasses import dataclass, replace

from validate.equivalence.compare import attestation
from validate.equivalence.compare.arms import Arms, Pair
from validate.equivalence.compare.common_practice import finds
from validate.equivalence.compare.company import company
from validate.equivalence.compare.comparison import Measured, forced_check, measure
from validate.equivalence.compare.finite import finite
from validate.equivalence.compare.forced import judge
from validate.equivalence.compare.tokens import Divergence, triage
from validate.records.arm import Transcript
from validate.records.arm_folder import Arm
from validate.verdict import Verdict


@dataclass(frozen=True)
class Detection:
    """Decoded tokens of the faulty arm, in recording order, after which each check finds it; ``first`` needs the fewest.

    ``attestation`` reads the engine's count, no tokens: 0, and first where it objects. ``common_practice``: what the common
    comparison needed, None where it finds nothing.
    """

    first: str
    tokens: dict[str, int]
    common_practice: int | None


def detected_by(default: Arm, again: Arm, sound: Arm, faulty: Arm) -> Detection | None:
    """None where no check finds the faulty arm; ValueError where one finds the sound one, as then detection proves nothing.

    Checks: ``attestation``, ``finite``, ``tokens`` (drift or defect), ``finish`` (ends apart with no token apart), ``forced``,
    ``company``.
    """
    alarms = found(Arms(default, again, sound))
    if alarms.tokens:
        raise ValueError(f"the sound arm {sound.manifest.name} is found by {alarms.first}: nothing can be said of the faulty one")
    faults = found(Arms(default, again, faulty))
    return faults if faults.tokens else None


def found(arms: Arms) -> Detection:
    """Of any specialized arm; ``first`` and ``tokens`` are empty where no check finds it."""
    pairs = arms.pairs()
    measured = measure(arms, pairs)
    before, count = {}, 0  # tokens decoded before each request
    for t in arms.specialized.transcripts:
        before[t.key] = count
        count += len(t.tokens)
    tokens: dict[str, int] = {}
    if attestation.attested(arms).verdict is not Verdict.PASS:
        tokens["attestation"] = 0
    alone = Arms(replace(arms.default, transcripts=()), replace(arms.again, transcripts=()), arms.specialized)
    for finding in finite(alone).findings:
        end = before[f"{finding.scene}/{finding.request}"] + (finding.position or 0) + 1
        tokens["finite"] = min(end, tokens.get("finite", end))
    tokens |= _tokens(measured, before)
    forced = _forced(measured, before)
    if forced is not None:
        tokens["forced"] = forced
    kept = company(arms, measured.yardstick, measured.noise)
    for finding in kept.findings if kept else ():
        end = before[f"{finding.scene}/{finding.request}"] + (finding.position or 0) + 1
        tokens["company"] = min(end, tokens.get("company", end))
    places = [(before[pair.specialized.key], _common(pair)) for pair in measured.pairs]
    common = [start + at + 1 for start, at in places if at is not None]
    first = min(tokens, key=lambda name: tokens[name], default="")
    return Detection(first, tokens, min(common, default=None))


def _common(pair: Pair) -> int | None:
    return None if pair.default.kind == "sampled" else finds(pair)


def _tokens(measured: Measured, before: dict[str, int]) -> dict[str, int]:
    ends: dict[str, int] = {}
    for pair in measured.pairs:
        if pair.default.kind != "greedy":
            continue
        parted = triage(pair.default, pair.specialized, measured.noise)
        if parted.triage in ("drift", "defect"):
            name = "finish" if parted.tokens is None else "tokens"
            at = before[pair.specialized.key] + _decoded(parted, pair.specialized)
            ends[name] = min(at, ends.get(name, at))
    return ends


def _decoded(parted: Divergence, t: Transcript) -> int:
    """Tokens of the request that show it: up to the differing one, or all where only the ends differ."""
    return min((parted.position or 0) + 1, len(t.tokens))


def _forced(measured: Measured, before: dict[str, int]) -> int | None:
    """The smallest prefix that is a FAIL: by whole requests, then by tokens within the first at whose end it is."""
    forced = measured.forced
    if not forced.names or not _fails(measured, len(forced.request)):
        return None
    ends = [
        n + 1 for n in range(len(forced.request)) if n + 1 == len(forced.request) or forced.request[n] != forced.request[n + 1]
    ]
    at = next(n for n, end in enumerate(ends) if _fails(measured, end))
    start = ends[at - 1] if at else 0
    end = next(end for end in range(start + 1, ends[at] + 1) if _fails(measured, end))
    return before["/".join(forced.names[at])] + end - start


def _fails(measured: Measured, rows: int) -> bool:
    table = measured.forced.first(rows)
    judgement = judge(table, measured.yardstick, measured.forced)
    return forced_check(judgement, table, measured.pairs, measured.yardstick.noise).verdict is Verdict.FAIL
