"""Three kernels in a row, each starting early: the first writes late, the second is the one under trial, the third reads it.

Guards against a kernel that ends without having waited for its predecessor, be it that it needs nothing of it. Whoever waits
for that kernel then relies on its wait: ``griddepcontrol.wait`` waits for the kernel right before, not for those before it.
In a model the first would have to outlast the second by chance. Here it writes 100 us after it has let go.

The window is open only where all three lie ready when the gate opens: an attempt's ``late`` counts the repeats in which they did
not. A control that is right though few were late means that this GPU lets no kernel end, or none start, before the one two
before it has ended; PTX promises neither.
"""

import cutlass
import torch

from validate.races.gpu.adversaries.adversary import Adversary, stream
from validate.races.gpu.adversaries.predecessor import LATE
from validate.races.gpu.bench import Bench
from validate.races.gpu.bound import Bound, Contents
from validate.races.gpu.device import predecessor, successor

WORDS = successor.THREADS


class Successor(Adversary):
    """The kernel under trial has nothing to do with what the first writes and the third reads."""

    def __init__(self, bench: Bench, bound: Bound) -> None:
        super().__init__(bench, bound)
        self._first, self._third = predecessor.compiled(), successor.compiled()
        self._new, self._between, self._read = (torch.zeros(WORDS, dtype=torch.int32, device=bench.device) for _ in range(3))
        self._launch_first(0)
        self._launch_third()
        self.bench.sync()

    def run(self, contents: Contents, repeat: int) -> None:
        """The third reads either this repeat's number or the last one's."""
        self._new.fill_(repeat + 1)
        self.bench.sync()
        self.bench.gate()
        self._launch_first(LATE)
        self.bound.launch()
        self._launch_third()

    def seen(self) -> str | None:
        """The words that the third read too early."""
        stale = int((self._read != self._new).sum())
        return (
            f"the kernel after it read {stale} of {WORDS} words before the kernel before it had written them" if stale else None
        )

    def _launch_first(self, late: int) -> None:
        addresses = (cutlass.Int64(tensor.data_ptr()) for tensor in (self._between, self._new))
        self._first(*addresses, cutlass.Int32(WORDS), cutlass.Int64(late), stream(self.bench.main))

    def _launch_third(self) -> None:
        addresses = (cutlass.Int64(tensor.data_ptr()) for tensor in (self._read, self._between))
        self._third(*addresses, stream(self.bench.main))
