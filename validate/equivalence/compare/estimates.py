"""What two arms' logprobs at one position say: of the same context, as all tokens before it are the same.

**Scale.** If every logit moves by independent noise of rms ``n``, the chosen token's logprob moves by ``n * scale`` with
``scale² = (1 - p)² + Σ p_i²`` over the other tokens (the derivative of log softmax). A token that is all but certain does not
move, whatever the logits do. Differences over ``scale`` are therefore alike at all positions, in nats of a logit. Of the tokens
beyond the best k only the sum ``rest`` of their probabilities is known, and ``rest²`` is the most that they add.

**KL divergence.** The tokens that both arms name (``kept``) stay apart, all others are lumped: by the chain rule ``KL(P‖Q) =
lumped + rest · KL(P | rest ‖ Q | rest)``, so the estimate is never above the true divergence, and what it lacks is at most
``rest · m² / 2`` if no tail token's log ratio, given the tail, exceeds ``m`` (M. Bun and T. Steinke, "Concentrated differential
privacy", 2016, proposition 3.3). ``m`` is unknown. If the tail's logits move as the kept ones do, it is ``rest`` times half
their mean square log ratio, to second order: that is reported beside it (``lacking``), judged by nothing.
"""

import math
from dataclasses import dataclass

from validate.equivalence.compare.allowance import LEAST
from validate.records.arm import Top


@dataclass(frozen=True)
class Scale:
    """Of the default arm at one position. ``move``: the scale above, at least ``LEAST``.

    ``spread``: 1 - Σ p², so that KL ≈ n² spread / 2. ``gap``: nats between the chosen token and the nearest other one that is
    recorded, infinite without any.
    """

    move: float
    spread: float
    gap: float


@dataclass(frozen=True)
class Apart:
    """One arm against the default one at one position: nats, but for ``rank``, which says whether the chosen token's changed.

    ``best``: of the default arm's best token, as ``logprob`` is of the chosen one.
    """

    logprob: float
    best: float
    kl: float
    lacking: float
    rank: bool


def known(token: int, logprob: float, top: Top) -> dict[int, float]:
    """Logprobs by token: the best, and the chosen one."""
    return dict(zip(top.ids, top.logprobs, strict=True)) | {token: logprob}


def scale(token: int, logprobs: dict[int, float]) -> Scale:
    """The scale of one position."""
    p = {t: math.exp(min(value, 0.0)) for t, value in logprobs.items()}
    rest = max(1.0 - sum(p.values()), 0.0)
    squares = sum(value * value for t, value in p.items() if t != token)
    gap = min((abs(value - logprobs[token]) for t, value in logprobs.items() if t != token), default=math.inf)
    move = math.sqrt((1.0 - p[token]) ** 2 + squares + rest * rest)
    return Scale(max(move, LEAST), max(1.0 - squares - p[token] ** 2, 0.0), gap)


def apart(token: int, first: dict[int, float], second: dict[int, float]) -> Apart:
    """The second arm's figures less the first's; the divergence is the first from the second."""
    kept = first.keys() & second.keys()
    divergence, rest_first, rest_second, squares = 0.0, 1.0, 1.0, 0.0
    for t in kept:
        ratio = first[t] - second[t]
        p = math.exp(min(first[t], 0.0))
        divergence += p * ratio
        rest_first -= p
        rest_second -= math.exp(min(second[t], 0.0))
        squares += ratio * ratio
    # A rest below what fp32 logprobs resolve is no rest: the logarithm of two such would be noise.
    rest_first, rest_second = max(rest_first, 1e-6), max(rest_second, 1e-6)
    divergence += rest_first * math.log(rest_first / rest_second)
    rank = _rank(token, first) != _rank(token, second)
    best = max(first, key=first.__getitem__)
    # One that is no longer among the best is at most as likely as the least of them.
    moved = second.get(best, min(second.values())) - first[best]
    return Apart(second[token] - first[token], moved, max(divergence, 0.0), rest_first * squares / len(kept) / 2, rank)


def _rank(token: int, logprobs: dict[int, float]) -> int:
    return sum(value > logprobs[token] for value in logprobs.values())
