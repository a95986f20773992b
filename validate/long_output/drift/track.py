"""What is kept of a subject's errors: one row a sampled step."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# Columns of a sample, each [heads]. State and output: 2-norm of the difference to the path's own yardstick over that of the
# yardstick (a head's output may cancel: it is measured against the size of the state times that of the query). Then the most that
# the contraction allows (``bound``), and the most that rule 2 allows beside the default path (``acceptance``).
COLUMNS = ("state", "output", "state_bound", "output_bound", "state_beside", "output_beside")
EVERY = 16  # steps between two samples, after the first so many, which all are samples
Array = NDArray[np.float64]


def sampled(step: int) -> bool:
    """Whether the errors after ``step`` (from 1) are kept."""
    return step <= EVERY or step % EVERY == 0


class Track:
    """The samples of one subject: ``steps`` [n], and ``figures`` [n, columns, heads]."""

    def __init__(self) -> None:
        self._steps: list[int] = []
        self._rows: list[Tensor] = []

    def add(self, step: int, row: Tensor) -> None:
        """A sample, [columns, heads]."""
        self._steps.append(step)
        self._rows.append(row)

    @property
    def steps(self) -> NDArray[np.int64]:
        """The sampled steps."""
        return np.array(self._steps, dtype=np.int64)

    @property
    def figures(self) -> Array:
        """All samples."""
        return torch.stack(self._rows).numpy()

    def column(self, name: str) -> Array:
        """[n, heads] of one figure."""
        return self.figures[:, COLUMNS.index(name)]

    def kept(self) -> dict[str, Any]:
        """For ``restore``."""
        return {"steps": self._steps, "rows": torch.stack(self._rows) if self._rows else torch.zeros(0)}

    def restore(self, kept: dict[str, Any]) -> None:
        """Goes on from what ``kept`` gave."""
        self._steps, self._rows = kept["steps"], list(kept["rows"])
