"""The same text in changing company: what an engine says of it must not hang on who its neighbours are.

A race or a wrong index shows here before it costs a token: a partial sum that came late in one step of many moves a logprob by no
more than bf16 allows, and differs from round to round. So one arm is held against itself, at one size of batch at a time, since
other sizes run other kernels. Where the arm set says ``reproducible``, rounds must be equal to the bit, in the default arm, too;
not in the A/A arm, in which the sizes of batches vary. Elsewhere the specialized path may vary by ``MULTIPLE`` times what either
default arm does, or by the floor (``allowance.py``).

Texts are dictated, or go on greedily where nothing can be (with drafts). Then logprobs count up to the first other token, which
must be a tie, as between arms (``tokens.py``).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from validate.equivalence.compare.allowance import MULTIPLE, Yardstick
from validate.equivalence.compare.arms import Arms
from validate.equivalence.compare.finding import Check, Finding, at, check
from validate.equivalence.compare.swings import same_context
from validate.equivalence.compare.tokens import Divergence, Noise, triage
from validate.equivalence.scenes import WATCHED
from validate.records.arm import Transcript
from validate.records.arm_folder import Arm
from validate.verdict import Verdict

ROUND = re.compile(r"(.+-\d+)-\d+")


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
        return None
    claimed = arms.default.manifest.reproducible
    itself = "the default path itself: "
    own = max(_rms(default), _rms(again))
    allowed = 0.0 if claimed else max(MULTIPLE * own, yardstick.floor)
    found: list[Finding] = []
    if claimed:
        found += [_differs(one, Verdict.INVALID, itself) for one in default if not one.equal]
        found += [_differs(one, Verdict.FAIL, "") for one in specialized if not one.equal]
    else:
        if _rms(specialized) > allowed:
            worst = max(specialized, key=lambda one: one.largest)
            text = f"rms {_rms(specialized):.3g} nats, {allowed:.3g} allowed; the largest: "
            found.append(_differs(worst, Verdict.FAIL, text))
        for repeats, verdict, whose in ((default, Verdict.INVALID, itself), (specialized, Verdict.FAIL, "")):
            parted = [(one, triage(one.repeat, one.first, noise)) for one in repeats]
            found += [_parts(one, how, verdict, whose) for one, how in parted if how.triage in ("drift", "defect")]
    equal = sum(one.equal for one in specialized)
    said = f"{len(specialized)} repeats, {equal} equal to the bit; rms {_rms(specialized):.3g} nats"
    bound = "all to be equal" if claimed else f"{allowed:.3g} allowed, the default path's own {own:.3g}"
    return check("company", f"{said}, {bound}", found)


def _apart(arm: Arm) -> Iterator[Apart]:
    rounds: dict[tuple[str, str], Transcript] = {}
    for one in arm.transcripts:
        name = ROUND.fullmatch(one.scene)
        if one.error is not None or name is None or not one.request.startswith(WATCHED):
            continue
        first = rounds.setdefault((name[1], one.request), one)
        if first is not one and all(len(t.logprobs) == len(t.tokens) > 0 for t in (first, one)):
            yield _beside(first, one)


def _beside(first: Transcript, repeat: Transcript) -> Apart:
    same = same_context(first, repeat)
    if first.tokens[same - 1] != repeat.tokens[same - 1]:
        same -= 1
    moved = np.abs(np.subtract(repeat.logprobs[:same], first.logprobs[:same]))
    moved[~np.isfinite(moved)] = np.inf
    equal = (first.logprobs, first.top, first.tokens) == (repeat.logprobs, repeat.top, repeat.tokens)
    position = int(moved.argmax()) if moved.any() else _first_difference(first, repeat)
    squares, largest = (float(np.mean(moved**2)), float(moved.max())) if same else (0.0, 0.0)
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
