"""Faults of timing: what a kernel reads now and then is what was there before, in a batch that has nothing to do with it.

Each moves one row in hundreds, by little. On a GPU chance says which; here a count that goes on from step to step, so that
another request is hit in every round. Repeats in changing company show them.
"""

from torch import Tensor

from validate.faults.engine import fault
from validate.standin.forms import Weights
from validate.standin.specialized import SpecializedForms

EVERY = 499  # rows: a prime, so that no batch size falls into step with it


class NowAndThen(SpecializedForms):
    """One row in ``EVERY`` is another."""

    rows = 0

    def hit(self, rows: int) -> range:
        """Which of a call's rows."""
        first = -self.rows % EVERY
        self.rows += rows
        return range(first, rows, EVERY)


@fault(
    "late-partial-sum",
    "an all-reduce reads one rank's mailbox before the partial sum has come: the last layer's",
    shown="company",
)
class LatePartialSum(NowAndThen):  # noqa: D101 - each fault is described by its decorator
    before: Tensor | None = None

    def ranks(self, x: Tensor, weight: Tensor) -> Tensor:
        stale, self.before = self.before, x
        if stale is not None and stale.shape == x.shape and (rows := self.hit(len(x))):
            x, width = x.clone(), x.shape[1] // 8
            x[list(rows), :width] = stale[list(rows), :width]
        return super().ranks(x, weight)


@fault("shared-experts-not-waited-for", "the tail does not wait for the side stream: it adds the layer before's", shown="company")
class SharedExpertsNotWaitedFor(NowAndThen):  # noqa: D101
    before: Tensor | None = None

    def shared(self, weights: Weights, x: Tensor) -> Tensor:
        made = super().shared(weights, x)
        stale, self.before = self.before, made
        if stale is not None and stale.shape == made.shape and (rows := self.hit(len(made))):
            made = made.clone()
            made[list(rows)] = stale[list(rows)]
        return made
