"""The kernel before lets its dependents start at once, and writes what they read 100 us later.

Guards against a kernel that is launched with programmatic dependent launch and reads before ``griddepcontrol.wait``. In a model
the predecessor lets go near its end, so that a missing wait costs some nanoseconds that nobody notices; running harder does not
move its end. CCCL pull 5249 found such a wait missing with a producer that triggers, sleeps 100 us and only then writes.
"""

import cutlass
import torch

from validate.races.gpu.adversaries.adversary import Adversary, stream
from validate.races.gpu.bench import Bench
from validate.races.gpu.bound import Bound, Contents
from validate.races.gpu.device import predecessor

LATE = 100_000  # ns


class Predecessor(Adversary):
    """The late inputs hold another call's until then."""

    writes_late = True

    def __init__(self, bench: Bench, bound: Bound) -> None:
        super().__init__(bench, bound)
        assert bound.late is not None
        self._predecessor = predecessor.compiled()
        self._write(bound.late, 0, 0)
        self.bench.sync()

    def run(self, contents: Contents, repeat: int) -> None:
        """One after the other on one stream."""
        assert contents.late is not None
        self.bench.gate()
        self._write(contents.late, contents.late.numel(), LATE)
        self.bound.launch()

    def _write(self, source: torch.Tensor, count: int, late: int) -> None:
        assert self.bound.late is not None
        addresses = (cutlass.Int64(tensor.data_ptr()) for tensor in (self.bound.late, source))
        self._predecessor(*addresses, cutlass.Int32(count), cutlass.Int64(late), stream(self.bench.main))
