"""How often outputs show each sign, in both arms, paired by prompt.

Of signs that are granted a margin, the rate's growth is held to it as a score's loss is in evals (``stats/noninferiority.py``):
PASS where the upper one-sided 95 % bound is below the margin, FAIL where the lower one is above it, else INCONCLUSIVE.
McNemar's exact p-value is shown beside it: a growth that is no chance and within the margin is told and fails nothing. Of the
others one output is a FAIL where no output of the default path has any, and otherwise they are judged as the rest.

Sampled outputs of two arms part, and then are samples of their own. A sign that the default path shows in a share r of its
samples differs in 2 r (1 - r) of the pairs by chance alone, and of few pairs PASS is then not to be had. Of n pairs none of
which differs the upper bound is t sqrt(2 / (n (n - 1))), t being Student's quantile: 0.16 of 16 pairs, 0.04 of 64.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from validate.equivalence.arm import LongOutputs
from validate.equivalence.compare.arms import Pair
from validate.equivalence.compare.finding import Finding
from validate.long_output.signals.table import SIGNALS, Signal
from validate.records.arm import Transcript
from validate.records.model import Record
from validate.stats.discordant import mcnemar
from validate.stats.noninferiority import difference
from validate.verdict import Verdict


class Shown(Record):
    """One output that shows a sign, and from which token on."""

    arm: str
    scene: str
    request: str
    position: int


class Rate(Record):
    """One sign. Counts are of outputs; ``low`` and ``high``: one-sided 95 % bounds of the growth of its rate.

    ``margin``: what it is held to, 0 where one output is a FAIL. ``p``: McNemar's exact one, of "it did not grow". ``shown``:
    where it shows, all arms.
    """

    name: str
    outputs: int
    default: int
    again: int
    specialized: int
    low: float
    high: float
    margin: float
    p: float
    verdict: Verdict
    shown: tuple[Shown, ...]


def rates(pairs: Sequence[Pair], asked: LongOutputs) -> list[Rate]:
    """Of all signs; two pairs at least."""
    return [_rate(signal, pairs, asked) for signal in SIGNALS]


def _rate(signal: Signal, pairs: Sequence[Pair], asked: LongOutputs) -> Rate:
    shown: dict[str, list[Shown]] = {"default": [], "default-again": [], "specialized": []}
    marks = []
    for pair in pairs:
        mark = []
        for name, t in zip(shown, (pair.default, pair.again, pair.specialized), strict=True):
            position = signal.find(t, asked)
            mark.append(position is not None)
            if position is not None:
                shown[name].append(_shown(name, t, position))
        marks.append(mark)
    has = np.array(marks, dtype=bool)
    default, again, specialized = has.sum(axis=0).tolist()
    found = difference(1.0 - has[:, :1], 1.0 - has[:, 2:])
    verdict, margin = found.verdict(asked.margin), asked.margin
    if not signal.granted and not default and not again:
        margin = 0.0
        verdict = Verdict.FAIL if specialized else Verdict.PASS
    return Rate(
        name=signal.name,
        outputs=len(pairs),
        default=default,
        again=again,
        specialized=specialized,
        low=-found.high,
        high=-found.low,
        margin=margin,
        p=mcnemar(int((has[:, 2] & ~has[:, 0]).sum()), int((has[:, 0] & ~has[:, 2]).sum())),
        verdict=verdict,
        shown=tuple(one for of_arm in shown.values() for one in of_arm),
    )


def findings(rate: Rate) -> Iterator[Finding]:
    """Of a sign that did not pass: one, at the earliest place in the specialized arm."""
    if rate.verdict is Verdict.PASS:
        return
    own = sorted((one for one in rate.shown if one.arm == "specialized"), key=lambda one: one.position)
    text = f"{rate.name}: {rate.specialized} of {rate.outputs} outputs; default {rate.default}, its A/A arm {rate.again}"
    if rate.margin:
        text += f"; the rate grows by {rate.low:.3f} to {rate.high:.3f} (95 % bounds), {rate.margin:.3g} granted; p {rate.p:.2g}"
    else:
        text += "; none is granted where the default path has none"
    first = own[0] if own else None
    yield Finding(
        verdict=rate.verdict,
        text=text,
        scene=first.scene if first else None,
        request=first.request if first else None,
        position=first.position if first else None,
    )


def _shown(arm: str, t: Transcript, position: int) -> Shown:
    return Shown(arm=arm, scene=t.scene, request=t.request, position=position)
