"""The same text in changing company: what an engine says of it must not hang on who its neighbours are.

A race or a wrong index shows here before it costs a token: a partial sum that came late in one step of many moves a logprob by no
more than bf16 allows, and differs from round to round. So one arm is held against itself, at one size of batch at a time, since
other sizes run other kernels. Where the arm set says ``reproducible``, rounds must be equal to the bit, in the default arm, too;
not in the A/A arm, in which the sizes of batches vary. Elsewhere the rms of the specialized path's differences may be
``MULTIPLE`` times what either default arm's is, or the floor (``allowance.py``). A step in thousands that is far off is lost in
an rms: no single position may differ by more than ``MULTIPLE`` times the default arms' largest, or than normal differences of
the rms that is allowed exceed anywhere with a probability of ``ALPHA``. A position's difference is that of its token's logprob,
or of the log-odds of the two best tokens over sqrt(2), whichever is larger.

Texts are dictated, or go on greedily where nothing can be (with drafts). Then positions count up to the first other token, which
must be a tie, as between arms (``tokens.py``). Where that leaves less than half of the default arm's, too little was compared.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from validate.equivalence.compare.allowance import MULTIPLE, Yardstick
from validate.equivalence.compare.arms import Arms
from validate.equivalence.compare.finding import Check, Finding, at, check
from validate.equivalence.compare.swings import same_tokens, swings
from validate.equivalence.compare.tokens import Divergence, Noise, triage
from validate.equivalence.scenes import WATCHED
from validate.records.arm import Transcript
from validate.records.arm_folder import Arm
from validate.verdict import Verdict

ROUND = re.compile(r"(.+-\d+)-\d+")
ALPHA = 0.005


@dataclass(frozen=True)
class Apart:
    """One repeat of a request beside its first round, in the ``same`` positions before the first other token.

    ``largest``: nats, of the logprobs at ``position``; 0 if none differs.
    """

    first: Transcript
    repeat: Transcript
    equal: bool
    same: int
    squares: float
    largest: float
    position: int


def company(arms: Arms, yardstick: Yardstick, noise: Noise) -> Check | None:
    """None where no request was repeated so."""
    default, again, specialized = ([*_apart(arm)] for arm in arms)
    if not specialized:
        if not any(map(_watched, arms.specialized.transcripts)):
            return None
        return check("company", "no repeat", [Finding(verdict=Verdict.INVALID, text="company: no request was repeated")])
    claimed = arms.default.manifest.reproducible
    itself = "the default path itself: "
    own, positions = max(_rms(default), _rms(again)), sum(one.same for one in specialized)
    allowed = 0.0 if claimed else max(MULTIPLE * own, yardstick.floor)
    found: list[Finding] = []
    if claimed:
        found += [_differs(one, Verdict.INVALID, itself) for one in default if not one.equal]
        found += [_differs(one, Verdict.FAIL, "") for one in specialized if not one.equal]
    else:
        worst = max(specialized, key=lambda one: one.largest)
        most = max(MULTIPLE * max((one.largest for one in (*default, *again)), default=0.0), _extreme(positions) * allowed)
        if _rms(specialized) > allowed:
            text = f"rms {_rms(specialized):.3g} nats, {allowed:.3g} allowed; the largest: "
            found.append(_differs(worst, Verdict.FAIL, text))
        elif worst.largest > most:
            found.append(_differs(worst, Verdict.FAIL, f"{worst.largest:.3g} nats in one position, {most:.3g} allowed: "))
        if 2 * positions < sum(one.same for one in default):
            text = f"company: {positions} positions compared, and {sum(one.same for one in default)} of the default arm"
            found.append(Finding(verdict=Verdict.INCONCLUSIVE, text=text))
        for repeats, verdict, whose in ((default, Verdict.INVALID, itself), (specialized, Verdict.FAIL, "")):
            parted = [(one, triage(one.repeat, one.first, noise)) for one in repeats]
            found += [_parts(one, how, verdict, whose) for one, how in parted if how.triage in ("drift", "defect")]
    equal = sum(one.equal for one in specialized)
    said = f"{positions} positions of {len(specialized)} repeats, {equal} equal to the bit; rms {_rms(specialized):.3g} nats"
    bound = "all to be equal" if claimed else f"{allowed:.3g} allowed, the default path's own {own:.3g}"
    return check("company", f"{said}, {bound}", found)


def _apart(arm: Arm) -> Iterator[Apart]:
    rounds: dict[tuple[str, str], Transcript] = {}
    for one in arm.transcripts:
        if one.error is not None or not _watched(one):
            continue
        first = rounds.setdefault((one.scene.rpartition("-")[0], one.request), one)
        if first is not one and all(len(t.logprobs) == len(t.tokens) > 0 for t in (first, one)):
            yield _beside(first, one)


def _watched(one: Transcript) -> bool:
    return ROUND.fullmatch(one.scene) is not None and one.request.startswith(WATCHED)


def _extreme(positions: int) -> float:
    """Of so many normal differences, in standard deviations."""
    return float(norm.isf(ALPHA / 2 / max(1, positions)))


def _beside(first: Transcript, repeat: Transcript) -> Apart:
    same = same_tokens(first, repeat)
    moved = np.abs(np.subtract(repeat.logprobs[:same], first.logprobs[:same]))
    moved[~np.isfinite(moved)] = np.inf
    equal = (first.logprobs, first.top, first.tokens) == (repeat.logprobs, repeat.top, repeat.tokens)
    position = int(moved.argmax()) if moved.any() else _first_difference(first, repeat)
    squares, largest = (float(np.mean(moved**2)), float(moved.max())) if same else (0.0, 0.0)
    odds = swings([(first, repeat)])
    for size, at_position in zip(odds.sizes, odds.positions, strict=True):
        if at_position < same and size / 2**0.5 > largest:
            largest, position = float(size) / 2**0.5, int(at_position)
    return Apart(first, repeat, equal, same, squares, largest, position)


def _first_difference(first: Transcript, repeat: Transcript) -> int:
    """Of the best tokens, where the same ones' logprobs are equal; 0 if there is none."""
    pairs = zip(first.top, repeat.top, strict=False)
    return next((position for position, (one, other) in enumerate(pairs) if one != other), 0)


def _rms(repeats: Sequence[Apart]) -> float:
    squares = [one.squares for one in repeats if one.same]
    return float(np.sqrt(np.mean(squares))) if squares else 0.0


def _differs(one: Apart, verdict: Verdict, before: str) -> Finding:
    first, now = (transcript.logprobs[one.position] for transcript in (one.first, one.repeat))
    text = f"{before}not what it was in {one.first.scene}: logprob {now:.6f}, there {first:.6f}"
    return at(one.repeat, verdict, f"company: {text}", one.position)


def _parts(one: Apart, how: Divergence, verdict: Verdict, before: str) -> Finding:
    text = f"{before}not what it was in {one.first.scene}: {how.triage}: {how.text}"
    return at(one.repeat, verdict, f"company: {text}", how.position)
