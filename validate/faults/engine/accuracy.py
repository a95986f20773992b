"""Faults of a given size in accuracy: what evals must find, and what they may not be able to decide."""

from torch import Tensor

from validate.faults.engine import fault
from validate.standin.specialized import SpecializedForms


class LogitsOfRowBefore(SpecializedForms):
    """Of every ``every`` rows of logits one is that of the row before in the batch, so that a request gets another's token.

    ``rows`` counts on from step to step: a defect that hangs on when a kernel runs meets any request at any token.
    """

    every: int
    rows = 0

    def logits(self, hidden: Tensor, head: Tensor) -> Tensor:
        """As the path's, but for those rows."""
        logits = super().logits(hidden, head)
        first = -self.rows % self.every
        self.rows += len(logits)
        wrong = logits.clone()
        wrong[first :: self.every] = logits.roll(1, 0)[first :: self.every]
        return wrong


@fault(
    "token-of-neighbour-often", "one row of logits in 200 is its neighbour's: an index read before it was written", shown="evals"
)
class TokenOfNeighbourOften(LogitsOfRowBefore):  # noqa: D101 - each fault is described by its decorator
    every = 200


@fault("token-of-neighbour-seldom", "the same of one row in 4,000: a loss about as large as the margins", shown="evals")
class TokenOfNeighbourSeldom(LogitsOfRowBefore):  # noqa: D101
    every = 4000
