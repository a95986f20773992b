"""A case: one set of inputs of one stage, named so that it can be run again alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from validate.paths.dispatch import PREPARED

# Stages whose tensors are sized by the kind of inputs, too: lengths and dtype of MLA's cache, rows of a ragged verify step.
SIZED_BY_INPUTS = ("mla", "recover_ssm")


@dataclass(frozen=True)
class Case:
    """``sizes`` (tp, batch, q, ...) and the kind of ``inputs`` say what is built; ``seed`` draws the numbers."""

    stage: str
    sizes: Mapping[str, int] = field(hash=False)
    inputs: str
    seed: int

    @property
    def id(self) -> str:
        """For instance ``kda/tp8-batch16-q1/random/s0``."""
        sizes = "-".join(f"{name}{value}" for name, value in self.sizes.items())
        return f"{self.stage}/{sizes}/{self.inputs}/s{self.seed}"

    @property
    def shapes(self) -> str:
        """Equal for cases whose tensors have equal shapes and dtypes: so what they take, and who runs them, is the same."""
        return self.id.rsplit("/", 1 if self.stage in SIZED_BY_INPUTS else 2)[0]


def prepared_rows(rows: int) -> int:
    """The smallest prepared row count that holds ``rows``: what a CUDA graph pads them to."""
    return next(size for size in PREPARED if size >= rows)
