"""How far a sound path may be off its float64 yardstick after any number of steps: a bound from the contraction.

A row s of the state (one value channel, [K]) goes on as

    a = s * d        s' = a + beta (v - a k) k^T

With e the error before the step, linear in s but for what the step's own arithmetic adds:

    |e'| <= c |e| + r        c = max(d) * |I - beta k k^T| = max(d), as 0 <= beta <= 1 and |k| <= 1

r, in units u = 2**-24 of one fp32 rounding, D = s' - a being the update, of norm beta |v - a k| |k|:

    |a| (delta_d + u)                the decay's own error, and the rounding of the product s d
    |a| (9 u beta + beta kappa)      the sum over keys: every product is added by at most 8 additions in either path's order
                                     (Higham, Accuracy and Stability, section 4.2)
    |D| (4 u + delta_beta + kappa)   subtraction, product with beta, and the update's direction
    |s'| u                           the fused multiply-add
    2**-140                          results below fp32's normal numbers: 2**-150 each, of at most 2**14 elements in 5 operations

delta_d = (3 + |g| (6 + 8 (1 - sigmoid(z)) |z|)) u: exp turns the error of its argument g = -5 sigmoid(z) into a relative one. The
fast exp rounds its argument times log2(e), by less than 2 u of it; z = exp(A_log) (gate + dt_bias) has less than 6 roundings, and
sigmoid makes 1 - sigmoid(z) times the error of z a relative one. kappa, the relative error of a key or a query, is 9 u: a sum of
squares by at most 9 roundings, halved by the root, and 4 roundings more. delta_beta comes with the inputs (``yardstick.Exact``).
All norms add up over the rows of a head, as a 2-norm. The roundings act on the computed values, s + e: c grows by what the table
has for |a| = 1, |D| = beta and |s'| = 1 (``keeps``).

The bound is certain: nothing is said of rounding errors being random, so it grows like min(steps, memory of the slowest channel),
where errors met grow like the root of that. What is off by more than it is no rounding; smaller faults are for the other checks.
"""

from typing import Any

import torch
from torch import Tensor

from validate.long_output.drift.yardstick import Exact
from validate.model.dimensions import K3
from validate.reference.points import U32

SUM = 9 * U32  # a product, and at most 8 additions after it
UNIT = 9 * U32  # kappa
UNDERFLOW = 2.0**-140


def decay_error(log_decay: Tensor) -> Tensor:
    """delta_d, relative, of float64 log decays [...]."""
    share = log_decay / K3.gate_lower_bound
    argument = torch.logit(share, 1e-15).abs()  # where the sigmoid is 0 or 1, it matters no more
    return (3 + log_decay.abs() * (6 + 8 * (1 - share) * argument)) * U32


def added(sizes: tuple[Tensor, Tensor, Tensor], decay: Tensor, beta: Tensor, beta_error: Tensor, key: float = UNIT) -> Tensor:
    """What one step adds, r [...]. ``sizes``: norms of the decayed state a, the update D and the new state.

    ``decay`` is delta_d, ``key`` kappa.
    """
    return _table(sizes, decay, beta, beta_error, key) + UNDERFLOW


def keeps(largest: Tensor, decay: Tensor, beta: Tensor, beta_error: Tensor, key: float = UNIT) -> Tensor:
    """By how much the error before a step is multiplied at most, c [...]. ``largest``: max(d); the others as in ``added``."""
    one = torch.ones_like(largest)
    return largest + _table((one, beta, one), decay, beta, beta_error, key)


def _table(sizes: tuple[Tensor, Tensor, Tensor], decay: Tensor, beta: Tensor, beta_error: Tensor, key: float) -> Tensor:
    decayed, update, new = sizes
    return decayed * (decay + U32 + beta * (SUM + key)) + update * (4 * U32 + beta_error + key) + new * U32


class Bound:
    """``state`` [2, requests, heads]: the bound of the 2-norm of the state's error; ``single``: of any one step's share in it."""

    def __init__(self, requests: int, heads: int) -> None:
        self.state = torch.zeros(2, requests, heads, dtype=torch.float64)
        self.single = torch.zeros_like(self.state)
        self.size = torch.zeros_like(self.state)

    def prepare(self, exact: Exact) -> dict[str, Tensor]:
        """What of a block needs no state."""
        decay = decay_error(exact.log_decay).amax(-1)
        return {"decay": decay, "keeps": keeps(exact.decay.amax(-1), decay, exact.beta, exact.beta_error)}

    def step(self, exact: Exact, prepared: dict[str, Tensor], n: int, decayed: Tensor, new: Tensor) -> None:
        """The block's step ``n``, from the yardsticks' decayed and new states [2, requests, heads, V, K]."""
        self.size = _norm(new)
        sizes = _norm(decayed), _norm(new - decayed), self.size
        keeps, one = prepared["keeps"][n], added(sizes, prepared["decay"][n], exact.beta[n], exact.beta_error[n])
        self.state = self.state * keeps + one
        self.single = torch.maximum(self.single * keeps, one)

    def output(self, exact: Exact, n: int, error: Tensor, rounded: Tensor) -> Tensor:
        """Of o = s q, where the state is off by ``error``; ``rounded`` is what rounding to the path's dtype may add."""
        query = exact.query[n].norm(dim=-1)
        return query * (error + self.size * (SUM + UNIT)) + rounded

    def kept(self) -> dict[str, Any]:
        """What goes on to the next block."""
        return {"state": self.state, "single": self.single}

    def restore(self, kept: dict[str, Any]) -> None:
        """Goes on from what ``kept`` gave."""
        self.state, self.single = kept["state"], kept["single"]


def _norm(state: Tensor) -> Tensor:
    return torch.linalg.vector_norm(state, dim=(-2, -1))
