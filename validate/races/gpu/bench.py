"""The GPU of a trial's process: its streams, how launches are queued so that they overlap, and when a kernel counts as hung."""

import gc
import time

import torch
from torch import Tensor

from validate.paths.emulated.mailbox import SENTINEL
from validate.races.gpu.bound import Bound

HUNG = 5.0  # seconds from a launch to its end: what is placed here delays it by less than a millisecond
# Cycles, some 0.5 ms at 2 GHz, for which all streams are held at first: launches that are to overlap must lie ready together, and
# Python takes some 0.1 ms for one, more where many processes share the cores. Where that was too short it is doubled, up to 8 ms.
GATE, LONGEST_GATE = 1_000_000, 16_000_000


class Hung(Exception):
    """A kernel did not end; the GPU is lost to this process."""


class Bench:
    """``main`` is the current stream from now on; ``side`` and ``third`` are for others than the kernel under trial.

    ``late``: how often launches did not lie ready when they were let go.
    """

    def __init__(self) -> None:
        self.device = torch.device("cuda", 0)
        torch.cuda.set_device(self.device)
        self.main, self.side, self.third, self._gate = (torch.cuda.Stream() for _ in range(4))
        torch.cuda.set_stream(self.main)
        self.multiprocessors = torch.cuda.get_device_properties(self.device).multi_processor_count
        self._host: dict[tuple[int, ...], Tensor] = {}
        self._opened: torch.cuda.Event | None = None
        self._cycles, self.late = GATE, 0
        torch.cuda._sleep(1)  # loads its kernel
        gc.disable()  # to free a kernel, or a graph, waits for the one that polls, and so for ever

    def expect(self, bound: Bound) -> None:
        """Pinned memory for a look at its mailbox: to allocate it would wait for a kernel that polls."""
        if bound.mailbox is not None:
            shape = tuple(bound.mailbox.shape)
            self._host.setdefault(shape, torch.empty(shape, dtype=torch.bfloat16, pin_memory=True))

    def gate(self) -> None:
        """Holds the streams up for a while; what is launched on them meanwhile lies ready when they go on together."""
        with torch.cuda.stream(self._gate):
            torch.cuda._sleep(self._cycles)
        self._opened = self._gate.record_event()
        for stream in (self.main, self.side, self.third):
            stream.wait_event(self._opened)

    def sync(self) -> None:
        """Back when all that is queued is done. Nothing polls then."""
        torch.cuda.synchronize()

    def finish(self, bound: Bound) -> None:
        """Back when all streams are done, after the last launch. Hung says what the kernel still waits for."""
        if self._opened is not None and self._opened.query():
            self.late += 1
            self._cycles = min(2 * self._cycles, LONGEST_GATE)
        self._opened = None
        events = [stream.record_event() for stream in (self.main, self.side, self.third)]
        end = time.monotonic() + HUNG
        while not all(event.query() for event in events):
            if time.monotonic() > end:
                raise Hung(f"did not end within {HUNG:.0f} s{self._waiting(bound)}")
        self.sync()

    def _waiting(self, bound: Bound) -> str:
        if bound.mailbox is None:
            return ""
        host = self._host[tuple(bound.mailbox.shape)]
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            host.copy_(bound.mailbox, non_blocking=True)
        stream.synchronize()
        armed = (host[:, : bound.rows].view(torch.int32).unflatten(-1, (-1, 4)) == SENTINEL).any(-1).flatten(1).sum(1)
        slots = ", ".join(f"slot {slot}: {int(count)}" for slot, count in enumerate(armed) if count)
        return f"; fragments still armed: {slots or 'none'}"
