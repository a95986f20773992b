"""Another kernel holds all multiprocessors but a few: blocks and clusters start late, some after their payload, and in turn.

Guards against a kernel that relies on all its blocks starting together, or before what they wait for. On an idle GPU they do,
however hard it runs. What holds a multiprocessor lets go after 20 to 300 us, each at a time of its own: some 5 to 100 times what
the kernels take.
"""

import random

import cutlass
import torch

from validate.races.gpu.adversaries.adversary import Adversary, stream
from validate.races.gpu.adversaries.delivery import Delivery
from validate.races.gpu.bench import Bench
from validate.races.gpu.bound import Bound, Contents
from validate.races.gpu.device import hog

SHORTEST, LONGEST = 20_000, 300_000  # ns
MOST_FREE = 16  # multiprocessors: two clusters' worth of blocks that do not share one
CYCLES = 20_000  # some 10 us, by which the hogs have all begun


class Crowded(Adversary):
    """The payload, if it polls for one, is stored meanwhile, at the kernel's own pace."""

    delivers = True

    def __init__(self, bench: Bench, bound: Bound) -> None:
        super().__init__(bench, bound)
        self._hog = hog.compiled()
        self._delivery = Delivery(bench, bound) if bound.mailbox is not None else None
        self._take(torch.zeros(1, dtype=torch.int32, device=bench.device))
        self.bench.sync()

    def run(self, contents: Contents, repeat: int) -> None:
        """How many multiprocessors are left, and for how long, changes from repeat to repeat."""
        device = self.bench.device
        blocks = self.bench.multiprocessors - random.Random(repeat).randint(0, MOST_FREE)
        seeded = torch.Generator(device).manual_seed(repeat)
        times = torch.randint(SHORTEST, LONGEST, (blocks,), generator=seeded, dtype=torch.int32, device=device)
        if self._delivery is not None:
            order = self._delivery.words.flatten()
            order = order[torch.randperm(len(order), generator=seeded, device=device)].contiguous()
            pauses = torch.zeros_like(order)
        self.bench.sync()
        self.bench.gate()
        self._take(times)
        if self._delivery is not None:
            assert contents.mailbox is not None
            self._delivery.send(contents.mailbox, order, pauses, self.bench.third)
        torch.cuda._sleep(CYCLES)
        self.bound.launch()

    def _take(self, times: torch.Tensor) -> None:
        self._read_meanwhile = times
        self._hog(cutlass.Int64(times.data_ptr()), cutlass.Int32(times.numel()), stream(self.bench.side))
