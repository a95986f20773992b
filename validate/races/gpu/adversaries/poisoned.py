"""All shared memory holds NaN when the kernel begins.

Guards against a read of shared memory before it is written: by another warp, by another block of the cluster, by a copy under
way. Repeated calls on equal inputs hide it, since the last call has left the right values in the same places. With ``stalls``, a
delay within the kernel makes sure that they are not there in time.
"""

import cutlass

from validate.races.gpu.adversaries.adversary import Adversary, stream
from validate.races.gpu.bench import Bench
from validate.races.gpu.bound import Bound, Contents
from validate.races.gpu.device import poison


class Poisoned(Adversary):
    """Poison, then the kernel."""

    def __init__(self, bench: Bench, bound: Bound) -> None:
        super().__init__(bench, bound)
        self._poison = poison.compiled()
        self._launch()
        self.bench.sync()

    def run(self, contents: Contents, repeat: int) -> None:
        """In one stream: nothing else takes shared memory between them."""
        self._launch()
        self.bound.launch()

    def _launch(self) -> None:
        self._poison(cutlass.Int32(self.bench.multiprocessors), stream(self.bench.main))
