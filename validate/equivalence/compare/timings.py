"""Times of both paths side by side, each in its own column. Never a verdict: correctness does not depend on them."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from validate.equivalence.compare.arms import Pair
from validate.records.arm import Transcript
from validate.records.model import Record
from validate.stats.bootstrap import interval

Array = NDArray[np.float64]


class Timing(Record):
    """Medians over the requests of a scene, of intervals of each request's median.

    ``ratio``: specialized over default, ``low`` and ``high`` its 95 % interval over requests.
    """

    scene: str
    figure: str
    requests: int
    default: float
    again: float
    specialized: float
    ratio: float
    low: float
    high: float


def _first_token(t: Transcript) -> list[float]:
    return [t.times.first_token * 1e3] if t.times else []


def _intervals(t: Transcript) -> list[float]:
    return [value * 1e3 for value in t.times.intervals] if t.times else []


def _prefill(t: Transcript) -> list[float]:
    return [(len(t.prompt) - t.cached) / t.times.first_token] if t.times and t.times.first_token > 0 else []


def _decode(t: Transcript) -> list[float]:
    spent = sum(t.times.intervals) if t.times else 0.0
    return [(len(t.tokens) - 1) / spent] if spent > 0 else []


FIGURES: dict[str, Callable[[Transcript], list[float]]] = {
    "time to first token, ms": _first_token,
    "inter-token latency, ms": _intervals,
    "prefill, tokens/s a request": _prefill,  # with what it waited for before it
    "decode, tokens/s a request": _decode,
}


def timings(pairs: list[Pair]) -> tuple[Timing, ...]:
    """Of each scene whose requests have times in all arms."""
    found = []
    for scene in dict.fromkeys(pair.default.scene for pair in pairs):
        own = [pair for pair in pairs if pair.default.scene == scene]
        for figure, of in FIGURES.items():
            values = [[of(t) for t in (pair.default, pair.again, pair.specialized)] for pair in own]
            medians = np.array([[np.median(arm) for arm in arms] for arms in values if all(arms)])
            if not len(medians):
                continue
            default, again, specialized = map(float, np.median(medians, axis=0))
            low, high = interval((medians[:, 0], medians[:, 2]), _ratio)
            found.append(
                Timing(
                    scene=scene,
                    figure=figure,
                    requests=len(medians),
                    default=default,
                    again=again,
                    specialized=specialized,
                    ratio=specialized / default,
                    low=low,
                    high=high,
                )
            )
    return tuple(found)


def _ratio(default: Array, specialized: Array) -> Array:
    return np.asarray(np.median(specialized, axis=-1) / np.median(default, axis=-1))
