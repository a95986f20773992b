"""Other ranks' payloads arrive while the kernel polls: 32-bit word by word, in random order, with random pauses.

Guards against a poll that takes a fragment before all of it is there. The protocol's writers store 16 bytes at once, and a
reader that looks at one word of four is right as long as they arrive so; that they do is the hardware's habit, and over NVLink
and a multicast nobody promises it. vLLM's readers look at every word, so that they must bear words one by one. Running harder
does not tear a store; storing word by word does.
"""

import torch

from validate.races.gpu.adversaries.adversary import Adversary
from validate.races.gpu.adversaries.delivery import Delivery
from validate.races.gpu.bench import Bench
from validate.races.gpu.bound import Bound, Contents

PAUSED = 8  # one word in so many waits
LONGEST = 4_000  # ns: the kernel itself takes 2 to 5 us, so that a pause may cover all of it


class Words(Adversary):
    """The kernel first, then the payload."""

    delivers = True

    def __init__(self, bench: Bench, bound: Bound) -> None:
        super().__init__(bench, bound)
        self._delivery = Delivery(bench, bound)

    def run(self, contents: Contents, repeat: int) -> None:
        """A new order each time."""
        assert contents.mailbox is not None
        count, device = self._delivery.count, self.bench.device
        random = torch.Generator(device).manual_seed(repeat)
        order = self._delivery.words.flatten()[torch.randperm(count, generator=random, device=device)].contiguous()
        pauses = torch.randint(LONGEST, (count,), generator=random, dtype=torch.int32, device=device)
        pauses *= torch.randint(PAUSED, (count,), generator=random, device=device) == 0
        self.bench.sync()
        self.bound.launch()
        self._delivery.send(contents.mailbox, order, pauses, self.bench.side)
