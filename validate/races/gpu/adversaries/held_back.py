"""All of the payload arrives but a part, and that part 100 us later: a slot, a fragment of each row, a word of a fragment.

Guards against a reader that waits for some of what it reads: for one slot of eight, for the first fragment of a thread's two,
for some words. Random orders leave such a reader right nearly always, because all else is late, too; the one part that is late
alone finds it each time. 100 us is some 20 times what the kernel takes from its last word to its end.
"""

import torch

from validate.races.gpu.adversaries.adversary import Adversary
from validate.races.gpu.adversaries.delivery import Delivery
from validate.races.gpu.bench import Bench
from validate.races.gpu.bound import Bound, Contents

LATE = 100_000  # ns
FRAGMENT = 4  # words


class HeldBack(Adversary):
    """The kernel first, then the payload; what is held back changes from repeat to repeat."""

    delivers = True

    def __init__(self, bench: Bench, bound: Bound) -> None:
        super().__init__(bench, bound)
        self._delivery = Delivery(bench, bound)

    def run(self, contents: Contents, repeat: int) -> None:
        """In turn a slot, a fragment, a word."""
        assert contents.mailbox is not None
        random = torch.Generator().manual_seed(repeat)
        held = held_back(self._delivery.words, repeat, random)
        order, first = last(self._delivery.words, held, self._delivery.threads)
        pauses = LATE * first.int()
        self.bench.sync()
        self.bound.launch()
        self._delivery.send(contents.mailbox, order, pauses, self.bench.side)


def held_back(words: torch.Tensor, repeat: int, random: torch.Generator) -> torch.Tensor:
    """A mask like ``words`` [slots, rows, words of a row]: a slot, or in all rows a fragment of a slot, or a word of one."""
    slots, _, width = words.shape
    slot = int(torch.randint(slots, (), generator=random))
    word = int(torch.randint(width, (), generator=random))
    start, count = ((0, width), (word // FRAGMENT * FRAGMENT, FRAGMENT), (word, 1))[repeat % 3]
    held = torch.zeros(words.shape, dtype=torch.bool, device=words.device)
    held[slot, :, start : start + count] = True
    return held


def last(words: torch.Tensor, held: torch.Tensor, threads: int) -> tuple[torch.Tensor, torch.Tensor]:
    """An order of the words that ends with those held back; and, bool, the first of these that each of the threads stores."""
    flat, late = words.flatten(), held.flatten()
    order = torch.cat([flat[~late], flat[late]])
    entry = torch.arange(len(order), device=words.device)
    since = len(order) - int(late.sum())
    return order, (entry >= since) & (entry - threads < since)
