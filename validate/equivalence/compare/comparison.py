"""The whole comparison of three arms: every check, the figures behind it, one verdict."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from validate.equivalence.compare import allowance, attestation, common_practice, company, comparability, drafts, rerun
from validate.equivalence.compare.arms import Arms, Pair
from validate.equivalence.compare.finding import Check, Finding, check
from validate.equivalence.compare.finite import finite
from validate.equivalence.compare.forced import Judgement, OfRequest, Statistic, judge
from validate.equivalence.compare.swings import same_tokens, swings
from validate.equivalence.compare.table import Table, table
from validate.equivalence.compare.timings import Timing, timings
from validate.equivalence.compare.tokens import Divergence, Noise, counts, findings, margin, triage
from validate.records import provenance, seal
from validate.records.arm import ArmManifest, Transcript
from validate.records.arm_folder import Arm
from validate.records.model import SCHEMA_VERSION, Compared, Record
from validate.verdict import Verdict, worst

BLOCK = 16  # tokens in a cache block, where the engine's arguments do not say: vLLM's default


class Common(Record):
    """A request that the common comparison would fail, and where."""

    scene: str
    request: str
    position: int


class Comparison(Compared):
    """``comparison.json``.

    ``folders``: of the arms; ``records``: their digests (records/seal.py). ``floor``, ``tie`` (the largest at position 0): nats;
    ``noise``: what differences were held against, ``multiple`` times.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    layer: Literal["equivalence"] = "equivalence"
    verdict: Verdict
    exit_code: int
    folders: tuple[str, ...]
    records: tuple[str, ...] = ()
    arms: tuple[ArmManifest, ...]
    checks: tuple[Check, ...]
    steps: tuple[attestation.Row, ...] = ()
    noise: str = "A/A"
    multiple: float = 0.0
    floor: float = 0.0
    tie: float = 0.0
    greedy: tuple[Divergence, ...] = ()
    greedy_again: tuple[Divergence, ...] = ()
    undrafted: tuple[Divergence, ...] = ()
    forced: Judgement | None = None
    acceptance: drafts.Acceptance | None = None
    common_practice: tuple[Common, ...] = ()
    compared: int = 0
    timings: tuple[Timing, ...] = ()

    @property
    def findings(self) -> list[Finding]:
        """All of them, FAIL first."""
        every = [finding for check in self.checks for finding in check.findings]
        return sorted(every, key=lambda finding: finding.verdict is not Verdict.FAIL)

    @property
    def planted(self) -> list[ArmManifest]:
        """The arms with a planted fault: the comparison then tests the suite and says nothing of the paths."""
        return [arm for arm in self.arms if arm.planted]

    def told(self, finding: Finding) -> str:
        """A finding for a person; of a request with the command that runs its scene again, but for planted faults."""
        if finding.scene is None or finding.request is None or self.planted:
            return finding.line
        return f"{finding.line}\n  rerun: {rerun.command(self.arms[2], finding.scene)}"


@dataclass(frozen=True)
class Measured:
    """What greedy and forced decoding are judged by: the numeric requests of all arms, and their noise."""

    pairs: list[Pair]
    forced: Table
    yardstick: allowance.Yardstick
    judgement: Judgement | None
    noise: Noise


def measure(arms: Arms, pairs: list[Pair]) -> Measured:
    """``pairs`` without those that have a NaN: a comparison with one is never true, whatever it compares."""
    numbers = [pair for pair in pairs if _numeric(pair)]
    yardstick = allowance.yardstick(arms.default.manifest, arms.float32 is not None)
    engine = arms.default.manifest.engine
    given = greedily(numbers) if engine.get("speculative_config") else numbers
    forced = table(given, int(engine.get("block_size") or BLOCK))
    judgement = judge(forced, yardstick) if forced.names else None
    own = swings((pair.default, pair.noise) for pair in numbers if pair.noise)
    specialized = swings((pair.default, pair.specialized) for pair in numbers)
    noise = Noise(own, specialized, yardstick, grows=judgement is not None and _grows(judgement))
    return Measured(numbers, forced, yardstick, judgement, noise)


def compare(arms: Arms, undrafted: Arm | None = None, golden: bool = False) -> Comparison:
    """Arms that are not of one engine are not compared further.

    ``undrafted``: the specialized path without drafts; ``golden``: the default arms are golden records.
    """
    engine = comparability.same_engine(arms, golden)
    if engine.verdict is not Verdict.PASS:
        return _comparison(arms, [engine])
    pairs = arms.pairs()
    measured = measure(arms, pairs)
    greedy = [pair for pair in measured.pairs if pair.default.kind == "greedy"]
    found = tuple(triage(pair.default, pair.specialized, measured.noise) for pair in greedy)
    again = tuple(triage(pair.default, pair.again, measured.noise) for pair in greedy)
    accepted, acceptance = drafts.acceptance(measured.pairs)
    checks = [
        engine,
        comparability.complete(arms),
        attestation.attested(arms),
        finite(arms),
        tokens_check(found, again),
        forced_check(measured.judgement, measured.forced, measured.pairs, measured.yardstick.noise),
        _drafted(accepted, arms),
    ]
    if kept := company.company(arms, measured.yardstick, measured.noise):
        checks.append(kept)
    without: tuple[Divergence, ...] = ()
    if undrafted is not None:
        checked, without = drafts.without_drafts(arms.specialized, undrafted, measured.noise)
        checks.append(checked)
    sampled = sum(pair.default.kind == "sampled" for pair in pairs)
    if sampled:
        why = "a near tie draws another token, and nothing behind it can be compared"
        checks.append(Check(name="sampled", verdict=None, detail=f"{sampled} requests: {why}"))
    if not greedy and not measured.forced.names:
        checks.append(check("anything", "nothing", [Finding(verdict=Verdict.INVALID, text="no request could be compared")]))
    common = [(pair, common_practice.finds(pair)) for pair in measured.pairs if pair.default.kind != "sampled"]
    return _comparison(
        arms,
        checks,
        steps=attestation.table(arms.specialized),
        noise=measured.yardstick.noise,
        multiple=measured.yardstick.multiple,
        floor=measured.yardstick.floor,
        tie=measured.noise.tie(0),
        greedy=found,
        greedy_again=again,
        undrafted=without,
        forced=measured.judgement,
        acceptance=acceptance,
        common_practice=tuple(
            Common(scene=pair.default.scene, request=pair.default.request, position=at) for pair, at in common if at is not None
        ),
        compared=len(common),
        timings=timings(pairs),
    )


def greedily(pairs: list[Pair]) -> list[Pair]:
    """Greedy requests up to the first token that is not the same in all arms, as if those had been forced.

    With drafts no tokens can be; and what two paths think before they part is told by these alone.
    """
    found = []
    for pair in pairs:
        if pair.default.kind != "greedy" or pair.noise is None:
            continue
        others = pair.specialized, pair.noise
        same = min(same_tokens(pair.default, other) for other in others)
        default, specialized, noise = (_first(t, same) for t in (pair.default, *others))
        found.append(Pair(default, pair.again, specialized, noise))
    return found


def _first(t: Transcript, positions: int) -> Transcript:
    kept = {name: getattr(t, name)[:positions] for name in ("tokens", "logprobs", "top")}
    return t.model_copy(update={"kind": "forced", **kept})


def _drafted(accepted: Check, arms: Arms) -> Check:
    """An engine that is to draft and does not is another deployment."""
    if accepted.verdict is None and arms.specialized.manifest.engine.get("speculative_config"):
        return check(accepted.name, accepted.detail, [Finding(verdict=Verdict.INVALID, text="acceptance: nothing was drafted")])
    return accepted


def tokens_check(found: tuple[Divergence, ...], again: tuple[Divergence, ...]) -> Check:
    """FAIL for each drift and defect; INVALID where the default path has one against itself, as then it sets no noise."""
    if not found:
        return Check(name="tokens", verdict=None, detail="no greedy request")
    own = findings(again, Verdict.INVALID, "the default path against itself: ")
    detail = f"default and specialized: {counts(found)}; default and again: {counts(again)}"
    return check("tokens", detail, [*findings(found), *own])


def forced_check(judgement: Judgement | None, forced: Table, pairs: list[Pair], noise: str) -> Check:
    """FAIL for each statistic and request beyond what is allowed; INCONCLUSIVE for those of all positions that are not decided.

    A statistic's finding names the request and position with the largest difference in its group.
    """
    if judgement is None:
        return Check(name="forced", verdict=None, detail="no forced request")
    by_name = {(pair.default.scene, pair.default.request): pair for pair in pairs}
    groups = forced.groups()
    overall = [s for s in judgement.statistics if s.group == "all"]
    found = [_found(Verdict.FAIL, _of_request(r, noise), by_name[r.scene, r.request], r.position) for r in judgement.requests]
    for s in judgement.statistics:
        if s.verdict is Verdict.FAIL or (s.group == "all" and s.verdict is Verdict.INCONCLUSIVE):
            request, position = forced.largest(groups[s.group])
            found.append(_found(s.verdict, _of_statistic(s, noise), by_name[request], position))
    if not overall:
        text = f"{judgement.requests_count} forced requests: too few for an interval"
        found.append(Finding(verdict=Verdict.INCONCLUSIVE, text=text))
    figures = "; ".join(f"{s.name} {s.specialized:.3g} of {s.allowed:.3g} allowed, {noise} {s.noise:.3g}" for s in overall)
    return check("forced", f"{judgement.tokens} tokens of {judgement.requests_count} requests: {figures}", found)


def _of_statistic(s: Statistic, noise: str) -> str:
    text = f"{s.name} of {s.group}: {s.specialized:.4g}, {s.allowed:.4g} allowed, {noise} {s.noise:.4g}"
    if s.verdict is Verdict.FAIL:
        text += f"; p {s.p:.2g}, adjusted for all statistics; {s.requests} requests, {s.tokens} tokens"
        return f"{text}, the largest difference here"
    if s.tokens_needed is not None:
        return f"{text}: not decided by {s.tokens} tokens; about {s.tokens_needed} would"
    return f"{text}: not decided by {s.tokens} tokens, and more of the same would not decide it"


def _of_request(r: OfRequest, noise: str) -> str:
    return f"{r.name} {r.specialized:.4g}, {r.allowed:.4g} allowed for the largest of all requests, {noise} {r.noise:.4g}"


def _found(verdict: Verdict, text: str, pair: Pair, position: int) -> Finding:
    """With the forced token's logprobs, and each arm's best token with its margin over the other's."""
    first, second = pair.default, pair.specialized
    text += f"; forced token {first.tokens[position]}: {first.logprobs[position]:.4f} and {second.logprobs[position]:.4f}"
    tops = first.top[position], second.top[position]
    tokens = margins = None
    if tops[0].ids and tops[1].ids:
        tokens = tops[0].ids[0], tops[1].ids[0]
        margins = margin(tops[0], tokens[1]), margin(tops[1], tokens[0])
    return Finding(
        verdict=verdict,
        text=f"forced logprobs: {text}",
        scene=first.scene,
        request=first.request,
        position=position,
        tokens=tokens,
        margins=margins,
    )


def _grows(judgement: Judgement) -> bool:
    return any(s.name == "growth" and s.verdict is Verdict.FAIL for s in judgement.statistics)


def _numeric(pair: Pair) -> bool:
    sides = [t for t in (pair.default, pair.again, pair.specialized, pair.noise) if t is not None]
    shaped = all(len(t.tokens) == len(t.logprobs) == len(t.top) for t in sides)
    return shaped and all(np.isfinite([*t.logprobs, *(v for top in t.top for v in top.logprobs)]).all() for t in sides)


def _comparison(arms: Arms, checks: list[Check], **figures: object) -> Comparison:
    verdict = worst(c.verdict for c in checks if c.verdict is not None)
    every = [arm for arm in (*arms, arms.float32) if arm is not None]
    fields = {
        "folders": [str(arm.folder) for arm in every],
        "records": [seal.known(arm.folder) for arm in every],
        "arms": [arm.manifest for arm in every],
        "checks": checks,
        **provenance.code(),
    }
    return Comparison.model_validate({"verdict": verdict, "exit_code": verdict.exit_code} | fields | figures)
