"""The same dictated text in changing company: what an engine says of it must not hang on who its neighbours are.

A race or a wrong index shows here before it costs a token: a partial sum that came late in one step of many moves a logprob by no
more than bf16 allows, and differs from round to round. So one arm is held against itself, at one size of batch at a time, since
other sizes run other kernels. Where the arm set says ``reproducible``, rounds must be equal to the bit, in the default arm, too;
not in the A/A arm, in which the sizes of batches vary. Elsewhere the specialized path may vary by ``MULTIPLE`` times what either
default arm does, or by the floor (``allowance.py``).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from validate.equivalence.compare.allowance import MULTIPLE, Yardstick
from validate.equivalence.compare.arms import Arms
from validate.equivalence.compare.finding import Check, Finding, at, check
from validate.equivalence.scenes import WATCHED
from validate.records.arm import Transcript
from validate.records.arm_folder import Arm
from validate.verdict import Verdict

ROUND = re.compile(r"(.+-\d+)-\d+")


@dataclass(frozen=True)
class Apart:
    """One repeat of a request beside its first round. ``largest``: nats, of the logprobs at ``position``; 0 if none differs."""

    first: Transcript
    repeat: Transcript
    equal: bool
    squares: float
    largest: float
    position: int


def company(arms: Arms, yardstick: Yardstick) -> Check | None:
    """None where no request was repeated so."""
    default, again, specialized = ([*_apart(arm)] for arm in arms)
    if not specialized:
        return None
    claimed = arms.default.manifest.reproducible
    own = max(_rms(default), _rms(again))
    allowed = 0.0 if claimed else max(MULTIPLE * own, yardstick.floor)
    found: list[Finding] = []
    if claimed:
        found += [_differs(one, Verdict.INVALID, "the default path itself: ") for one in default if not one.equal]
        found += [_differs(one, Verdict.FAIL, "") for one in specialized if not one.equal]
    elif _rms(specialized) > allowed:
        worst = max(specialized, key=lambda one: one.largest)
        found.append(_differs(worst, Verdict.FAIL, f"rms {_rms(specialized):.3g} nats, {allowed:.3g} allowed; the largest: "))
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
        if first is not one and len(first.logprobs) == len(one.logprobs) == len(one.tokens):
            moved = np.abs(np.subtract(one.logprobs, first.logprobs))
            moved[~np.isfinite(moved)] = np.inf
            equal = (first.logprobs, first.top, first.tokens) == (one.logprobs, one.top, one.tokens)
            position = _first_difference(first, one) if not moved.any() else int(moved.argmax())
            yield Apart(first, one, equal, float(np.mean(moved**2)), float(moved.max()), position)


def _first_difference(first: Transcript, repeat: Transcript) -> int:
    """Of the best tokens, where the given ones' logprobs are equal; 0 if there is none."""
    pairs = zip(first.top, repeat.top, strict=True)
    return next((position for position, (one, other) in enumerate(pairs) if one != other), 0)


def _rms(repeats: Sequence[Apart]) -> float:
    return float(np.sqrt(np.mean([one.squares for one in repeats]))) if repeats else 0.0


def _differs(one: Apart, verdict: Verdict, before: str) -> Finding:
    first, now = (transcript.logprobs[one.position] for transcript in (one.first, one.repeat))
    text = f"{before}not what it was in {one.first.scene}: logprob {now:.6f}, there {first:.6f}"
    return at(one.repeat, verdict, f"company: {text}", one.position)
