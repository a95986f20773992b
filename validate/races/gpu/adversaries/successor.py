"""Three kernels in a row, each starting early: the first writes late, the second is the one under trial, the third reads it.

Guards against a kernel that ends without having waited for its predecessor, be it that it needs nothing of it. Whoever waits
for that kernel then relies on its wait: ``griddepcontrol.wait`` waits for the kernel right before, not for those before it.
In a model the first would have to outlast the second by chance. Here it writes 100 us after it has let go.

The window is open only where all three lie ready when the gate opens: an attempt's ``late`` counts the repeats in which they did
not. And only on a GPU whose wait does no more than PTX promises. An H200's does: with a kernel between them that waits for
nothing, the third began 1 us after the first and came back from its wait only when the first had ended, 100 us later. So the
adversary first puts such a kernel of its own between them; where the third is right even then, vLLM's could not be wrong.
"""

from collections.abc import Callable

import cutlass
import torch

from validate.races.gpu.adversaries.adversary import Adversary, stream
from validate.races.gpu.adversaries.predecessor import LATE
from validate.races.gpu.bench import Bench
from validate.races.gpu.bound import Bound, Contents
from validate.races.gpu.device import passing, predecessor, successor

WORDS = successor.THREADS
PROBES = 20
SHUT = (
    "this GPU's griddepcontrol.wait waits for kernels before the one right before, too: also behind a kernel that waits for "
    f"nothing, the third was right in {PROBES} of {PROBES}"
)


class Successor(Adversary):
    """The kernel under trial has nothing to do with what the first writes and the third reads."""

    def __init__(self, bench: Bench, bound: Bound) -> None:
        super().__init__(bench, bound)
        self._first, self._passing, self._third = predecessor.compiled(), passing.compiled(), successor.compiled()
        self._new, self._between, self._read = (torch.zeros(WORDS, dtype=torch.int32, device=bench.device) for _ in range(3))
        self._launch_first(0)
        self._passing(stream(bench.main))
        self._launch_third()
        self.bench.sync()

    def shut(self) -> str | None:
        """Whether the third reads rightly behind a kernel that waits for nothing, launched in time."""
        late = self.bench.late
        for number in range(PROBES):
            self._three(-1 - number, lambda: self._passing(stream(self.bench.main)))
            self.bench.finish(self.bound)
            if self.seen():
                return None
        return SHUT if self.bench.late - late < PROBES // 2 else None

    def run(self, contents: Contents, repeat: int) -> None:
        """The third reads either this repeat's number or the last one's."""
        self._three(repeat + 1, self.bound.launch)

    def seen(self) -> str | None:
        """The words that the third read too early."""
        stale = int((self._read != self._new).sum())
        return (
            f"the kernel after it read {stale} of {WORDS} words before the kernel before it had written them" if stale else None
        )

    def _three(self, number: int, second: Callable[[], object]) -> None:
        self._new.fill_(number)
        self.bench.sync()
        self.bench.gate()
        self._launch_first(LATE)
        second()
        self._launch_third()

    def _launch_first(self, late: int) -> None:
        addresses = (cutlass.Int64(tensor.data_ptr()) for tensor in (self._between, self._new))
        self._first(*addresses, cutlass.Int32(WORDS), cutlass.Int64(late), stream(self.bench.main))

    def _launch_third(self) -> None:
        addresses = (cutlass.Int64(tensor.data_ptr()) for tensor in (self._read, self._between))
        self._third(*addresses, stream(self.bench.main))
