"""How far the log-odds of two tokens move between arms in the same context: what decides whether a greedy choice may differ."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from validate.records.arm import Transcript

# Of the A/A swings; largest where there are fewer than 1,000. Together with MULTIPLE a bound of 13 standard deviations of a
# normal noise: it is the tail of noise that is not normal (a router's near tie) which this must hold.
QUANTILE = 0.999
BANDS = (0, 16, 64, 256, 1024, 4096, 16384)  # decoded positions; noise that grows is judged where it is
ENOUGH = 200  # swings for a band to have a noise of its own


@dataclass(frozen=True)
class Swings:
    """Absolute swings in nats and their positions [n]: of the first arm's two best tokens, before the first difference."""

    sizes: NDArray[np.float64]
    positions: NDArray[np.int64]

    def largest(self, position: int) -> float:
        """The noise at a position: of its band where that has enough swings, of all otherwise; 0 without any."""
        own = self.sizes[np.searchsorted(BANDS, self.positions, "right") == np.searchsorted(BANDS, position, "right")]
        chosen = own if len(own) >= ENOUGH else self.sizes
        return float(np.quantile(chosen, QUANTILE, method="higher")) if len(chosen) else 0.0


def swings(pairs: Iterable[tuple[Transcript, Transcript]]) -> Swings:
    """Of all positions with the same context in both."""
    sizes: list[float] = []
    positions: list[int] = []
    for first, second in pairs:
        if first.kind == "sampled":
            continue
        for position in range(same_context(first, second)):
            top, other = first.top[position], dict(zip(second.top[position].ids, second.top[position].logprobs, strict=True))
            if len(top.ids) > 1 and top.ids[0] in other and top.ids[1] in other:
                swing = top.logprobs[0] - top.logprobs[1] - other[top.ids[0]] + other[top.ids[1]]
                if math.isfinite(swing):
                    sizes.append(abs(swing))
                    positions.append(position)
    return Swings(np.array(sizes), np.array(positions, dtype=np.int64))


def same_tokens(first: Transcript, second: Transcript) -> int:
    """How many positions there are before the first other token."""
    same = same_context(first, second)
    return same - 1 if same and first.tokens[same - 1] != second.tokens[same - 1] else same


def same_context(first: Transcript, second: Transcript) -> int:
    """How many positions have the same tokens before them: all up to and with the first difference."""
    length = min(len(first.tokens), len(second.tokens))
    return next((n + 1 for n in range(length) if first.tokens[n] != second.tokens[n]), length)
