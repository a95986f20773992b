"""Greedy decoding of two arms: identical up to the first difference, which is a tie, drift or a defect. Only ties are benign."""

import math
from collections.abc import Iterable
from typing import Literal

from validate.equivalence.compare.allowance import Yardstick
from validate.equivalence.compare.finding import Finding
from validate.equivalence.compare.swings import Swings, same_context
from validate.records.arm import Top, Transcript
from validate.records.model import Record
from validate.verdict import Verdict

Triage = Literal["identical", "tie", "drift", "defect"]


class Divergence(Record):
    """One greedy request of two arms. ``position`` is that of the first difference, ``bound`` a tie's largest margin, nats."""

    scene: str
    request: str
    triage: Triage
    position: int | None = None
    tokens: tuple[int, int] | None = None
    margins: tuple[float | None, float | None] | None = None
    bound: float | None = None
    text: str = ""


class Noise:
    """What margins are held against.

    ``own``: swings of the default path against the yardstick's arm. ``specialized``: those against the specialized path, and
    whether they ``grow`` with position.
    """

    def __init__(self, own: Swings, specialized: Swings, yardstick: Yardstick, *, grows: bool) -> None:
        self._own, self._specialized, self._grows = own, specialized, grows
        self._yardstick = yardstick

    def tie(self, position: int) -> float:
        """The largest benign margin: of the noise at this position, or of two logits that differ by the floor each.

        3.29 is the normal distribution's quantile for the same 1 in 1,000 of absolute values as ``swings.QUANTILE``.
        """
        return max(self._yardstick.multiple * self._own.largest(position), 3.29 * math.sqrt(2) * self._yardstick.floor)

    def drift(self, position: int) -> float:
        """The largest margin that noise explains which grows with position; 0 where it does not grow."""
        return self._specialized.largest(position) if self._grows else 0.0


def triage(first: Transcript, second: Transcript, noise: Noise) -> Divergence:
    """Where two greedy answers part, and why. A margin is how far an arm prefers its own token to the other's."""
    scene, request = first.scene, first.request
    position = same_context(first, second) - 1
    if position < 0 or first.tokens[position] == second.tokens[position]:
        if len(first.tokens) == len(second.tokens) and first.finish == second.finish:
            return Divergence(scene=scene, request=request, triage="identical")
        ends = [f"{len(t.tokens)} tokens, {t.finish}" for t in (first, second)]
        text = f"no token differs, but one ends after {ends[0]}, the other after {ends[1]}"
        return Divergence(scene=scene, request=request, triage="defect", position=position + 1, text=text)
    tokens = first.tokens[position], second.tokens[position]
    margins = margin(first.top[position], tokens[1]), margin(second.top[position], tokens[0])
    bound = noise.tie(position)
    found: Triage = "defect"
    if None in margins:
        text = "a token that is not among the other arm's best"
    else:
        larger = max(value for value in margins if value is not None)
        text = f"margin {larger:.4g} beyond the noise {bound:.4g}"
        if larger <= bound:
            found, text = "tie", f"margin {larger:.4g} within the noise {bound:.4g}"
        elif larger <= noise.drift(position):
            found, text = "drift", f"{text}, within noise that grows with position"
    return Divergence(
        scene=scene,
        request=request,
        triage=found,
        position=position,
        tokens=tokens,
        margins=margins,
        bound=bound,
        text=text,
    )


def findings(found: Iterable[Divergence], verdict: Verdict = Verdict.FAIL, what: str = "") -> list[Finding]:
    """One for each that is neither identical nor a tie."""
    return [
        Finding(
            verdict=verdict,
            text=f"{what}{d.triage}: {d.text}",
            scene=d.scene,
            request=d.request,
            position=d.position,
            tokens=d.tokens,
            margins=d.margins,
        )
        for d in found
        if d.triage in ("drift", "defect")
    ]


def counts(found: Iterable[Divergence]) -> str:
    """``30 identical, 2 tie``."""
    by_kind = [d.triage for d in found]
    return (
        ", ".join(f"{by_kind.count(kind)} {kind}" for kind in ("identical", "tie", "drift", "defect") if kind in by_kind)
        or "none"
    )


def margin(top: Top, other: int) -> float | None:
    """How far a position's best token is ahead of another, nats; None where that is not among the best."""
    logprobs = dict(zip(top.ids, top.logprobs, strict=True))
    return top.logprobs[0] - logprobs[other] if other in logprobs else None
