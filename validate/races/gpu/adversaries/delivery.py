"""Other ranks' stores to a mailbox, played by one kernel on another stream."""

import cutlass
import torch
from torch import Tensor

from validate.races.gpu.adversaries.adversary import stream
from validate.races.gpu.bench import Bench
from validate.races.gpu.bound import Bound
from validate.races.gpu.device import scatter

EACH = 64  # words that a thread stores, some 1.5 us apart: a mailbox takes about 0.1 ms to fill
MOST_BLOCKS = 32  # of 256 threads: they find room beside any kernel that polls


class Delivery:
    """Stores a payload's words one by one."""

    def __init__(self, bench: Bench, bound: Bound) -> None:
        assert bound.mailbox is not None
        self.words = bound.words()
        self.count = self.words.numel()
        self._mailbox = bound.mailbox
        self._blocks = max(1, min(MOST_BLOCKS, self.count // (scatter.THREADS * EACH)))
        self._scatter = scatter.compiled()
        nothing = torch.zeros(1, dtype=torch.int32, device=bench.device)
        self._read_meanwhile = nothing, nothing
        self._launch(nothing, nothing, nothing, 0, bench.side)
        bench.sync()

    @property
    def threads(self) -> int:
        """Entry n of an order is thread n mod this one's; a thread takes its entries in turn."""
        return self._blocks * scatter.THREADS

    def send(self, payload: Tensor, order: Tensor, pauses: Tensor, on: torch.cuda.Stream) -> None:
        """``order``: int32 indices of words; ``pauses``: int32, ns before each."""
        self._read_meanwhile = order, pauses  # nobody else may get their memory before the kernel has read it
        self._launch(payload, order, pauses, order.numel(), on)

    def _launch(self, payload: Tensor, order: Tensor, pauses: Tensor, count: int, on: torch.cuda.Stream) -> None:
        addresses = (cutlass.Int64(tensor.data_ptr()) for tensor in (self._mailbox, payload, order, pauses))
        self._scatter(*addresses, cutlass.Int32(count), cutlass.Int32(self._blocks), stream(on))
