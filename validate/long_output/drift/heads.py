"""The heads of a stream: how long each remembers."""

from dataclasses import dataclass

import torch
from torch import Tensor

from validate.model.dimensions import K3
from validate.model.draws import Draws

HEADS = 8  # of a rank's 6 (TP16) or 12 (TP8), which never mix
SHORTEST, LONGEST = 1, 14  # log2 of the memory in steps of the first and the last head
GRID = 16  # shifts are multiples of 1 / GRID: their last bits do not depend on a machine's exp
SPREAD = 0.25  # of the logarithms of its channels' decays


@dataclass(frozen=True)
class Heads:
    """Parameters as ``reference.kda`` names them, and ``memory`` [H], the steps after which a head is to have forgotten.

    Kimi K3's trained decays are not public. A head's log decay is -5 sigmoid(exp(A_log) (gate + dt_bias)), with ``a_log`` and the
    gate spread as in ``numerics/kda.py``; ``dt_bias`` is shifted so that the mean log decay is -1 / ``memory``, ``memory`` going
    in equal factors from 2 steps to 16,384. Slow channels of a head remember about twice as long as its mean one, and a step
    whose gate is open forgets as much as thousands of others.
    ``beta_shift`` [H] closes the write gates of slow heads: each write replaces what stands along its key, so with keys in all
    directions a head that writes with beta forgets within 128 / beta steps, whatever its decay.
    """

    memory: Tensor
    a_log: Tensor
    dt_bias: Tensor
    beta_shift: Tensor


def heads(draws: Draws) -> Heads:
    """The heads of one stream."""
    memory = torch.exp2(torch.linspace(SHORTEST, LONGEST, HEADS, dtype=torch.float64))
    a_log = draws.bell((HEADS,), 0.5).float()
    gates = draws.bell((4096,))
    shifts = torch.tensor([_shift(gates, float(a.double().exp()), float(m)) for a, m in zip(a_log, memory, strict=True)])
    spread = draws.bell((HEADS, K3.head_dim), SPREAD) / a_log.double().exp()[:, None]
    dt_bias = (shifts[:, None] + spread).float().flatten()
    beta_shift = (memory / 32).log().clamp_min(0).mul(GRID).round().div(GRID)
    return Heads(memory, a_log, dt_bias, beta_shift)


def _shift(gates: Tensor, rate: float, memory: float) -> float:
    """By bisection: the multiple of 1 / GRID at which the mean log decay comes nearest to -1 / ``memory`` from below."""
    low, high = -64 * GRID, 16 * GRID
    while high - low > 1:
        middle = (low + high) // 2
        mean = -K3.gate_lower_bound * float(torch.sigmoid(rate * (gates + middle / GRID)).mean())
        low, high = (middle, high) if mean < 1 / memory else (low, middle)
    return low / GRID
