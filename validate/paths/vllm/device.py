"""Calls on a GPU: to it and back, late mailboxes, CUDA graphs, and a deadline for kernels that poll."""

import gc
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor

from validate.errors import InputError
from validate.model.call import Call
from validate.numerics import measure
from validate.paths import Broken, Lost
from validate.paths.emulated.mailbox import SENTINEL, arm
from validate.paths.group import Group
from validate.paths.vllm.adapter import Part, Prepared
from validate.paths.vllm.source import Source

DEADLINE = 20.0  # seconds from a launch to its end: stages take microseconds, their first run some seconds
COLUMNS = 1024  # of a mailbox's row that a producer writes at a time
MOST_CYCLES = 40_000  # that a producer waits before a write: some 20 microseconds
STREAMS = 4
T = TypeVar("T")
CUDA_ERRORS = ("CUDA error", "Triton Error [CUDA]", "cudaError", "CUDA_ERROR_")  # as torch, Triton and CuTe word them


def require() -> None:
    """InputError where torch finds no GPU."""
    if not torch.cuda.is_available():
        raise InputError("this profile runs vLLM's kernels on a GPU, and torch finds none: use --profile cpu")


class Gpu:
    """The GPU of this process: that of torchrun's rank or of the pytest-xdist worker, in turn, or the first."""

    def __init__(self) -> None:
        require()
        worker = int(os.environ.get("LOCAL_RANK") or os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
        self.device = torch.device("cuda", worker % torch.cuda.device_count())
        torch.cuda.set_device(self.device)
        self.capability = torch.cuda.get_device_capability(self.device)
        self._streams = [torch.cuda.Stream() for _ in range(STREAMS)]
        self._host: dict[tuple[int, ...], Tensor] = {}
        self._warm()

    def run(self, part: Part, call: Call, source: Source, group: Group | None = None) -> None:
        """One launch, with every mailbox full; or of all ranks of a group."""
        with _errors_are_verdicts():
            there = call.to(self.device)
            prepared = _together(group, lambda: self._prepared(part, there, source))
            self._launch(prepared, prepared.launch, group)
            _returned(there, call)

    def replay(self, part: Part, call: Call, source: Source, group: Group | None = None) -> None:
        """The replay of a CUDA graph, with mailboxes that are filled by other streams while it runs.

        It is prepared and captured with other inputs than it is replayed with (zeros, hence null slots, too), so that a value
        that was read then shows. The ranks of a group start at different times.
        """
        with _errors_are_verdicts():
            self._replay(part, call, source, group)

    def _replay(self, part: Part, call: Call, source: Source, group: Group | None) -> None:
        there = call.to(self.device)
        written = {**there.outputs, **there.buffers}
        before = {name: tensor.clone() for name, tensor in written.items()}
        step = {name: there.inputs[name] for name in part.step if there.inputs[name] is not None}
        inputs = {name: tensor.clone() for name, tensor in step.items()}
        for tensor in step.values():
            tensor.zero_()
        prepared = _together(group, lambda: self._prepared(part, there, source))
        for name, tensor in step.items():
            tensor.copy_(inputs[name])
        self._launch(prepared, prepared.launch, group)  # everything is compiled and loaded before the capture
        for tensor in step.values():
            tensor.zero_()
        graph = _together(group, lambda: _captured(prepared))
        for name, tensor in step.items():
            tensor.copy_(inputs[name])
        for name, tensor in written.items():
            tensor.copy_(before[name])
        if group is None:
            self._delivered(prepared, graph, call)
        else:
            wait = random.Random(repr((sorted(call.shape.items()), group.rank))).randrange(MOST_CYCLES)
            self._launch(prepared, lambda: _late(graph, wait), group)
        _returned(there, call)

    def _prepared(self, part: Part, there: Call, source: Source) -> Prepared:
        prepared = part.prepare(there, source)
        self._host_side(prepared)
        return prepared

    def _launch(self, prepared: Prepared, go: Callable[[], None], group: Group | None) -> None:
        """Launches on every rank, once all are armed; back when all have ended."""
        if prepared.arm is not None:
            _together(group, lambda: self._armed_again(prepared))

        def launch() -> None:
            go()
            self._finish(prepared)

        _together(group, launch)
        if prepared.collect is not None:
            _together(group, prepared.collect)

    def _armed_again(self, prepared: Prepared) -> None:
        assert prepared.arm is not None
        prepared.arm()
        torch.cuda.synchronize()

    def _delivered(self, prepared: Prepared, graph: torch.cuda.CUDAGraph, call: Call) -> None:
        """Replays with empty mailboxes, which other streams fill meanwhile."""
        full = [box.clone() for box in prepared.mailboxes]
        arm(*prepared.mailboxes)
        checksum = [int(box.view(torch.int32).sum()) for box in full]  # another order for other contents
        torch.cuda.synchronize()

        def go() -> None:
            graph.replay()
            self._deliver(prepared.mailboxes, full, random.Random(repr((sorted(call.shape.items()), checksum))))

        with _no_collection():
            self._launch(prepared, go, None)

    def _deliver(self, boxes: tuple[Tensor, ...], contents: list[Tensor], order: random.Random) -> None:
        """Writes the contents in random order and with random delays, by copies of 2 KB.

        How finely such a copy stores is CUDA's choice. A store of less than the protocol's 16 bytes would show as a
        wrong result of a sound kernel; none was seen.
        """
        pieces = [
            (box[slot, row, start : start + COLUMNS], full[slot, row, start : start + COLUMNS])
            for box, full in zip(boxes, contents, strict=True)
            for slot in range(box.shape[0])
            for row in range(box.shape[1])
            for start in range(0, box.shape[2], COLUMNS)
        ]
        order.shuffle(pieces)
        for target, piece in pieces:
            with torch.cuda.stream(order.choice(self._streams)):
                torch.cuda._sleep(order.randrange(MOST_CYCLES))
                store(target, piece)

    def _host_side(self, prepared: Prepared) -> None:
        """Pinned memory for a look at the mailboxes: to allocate it would wait for a kernel that polls."""
        for box in prepared.mailboxes:
            shape = tuple(box.shape)
            if shape not in self._host:
                self._host[shape] = torch.empty(shape, dtype=box.dtype, pin_memory=True)

    def _finish(self, prepared: Prepared) -> None:
        events = []
        for stream in (torch.cuda.current_stream(), *self._streams):
            events.append(torch.cuda.Event())
            events[-1].record(stream)
        end = time.monotonic() + DEADLINE
        while not all(event.query() for event in events):
            if time.monotonic() > end:
                raise Lost(*self._armed(prepared))
            time.sleep(0.0005)

    def _armed(self, prepared: Prepared) -> tuple[int, str]:
        """How many 16-byte fragments are still armed (1 without mailboxes), and which slots hold them: what is waited for."""
        total, slots = 0, []
        for box in prepared.mailboxes:
            host = self._host[tuple(box.shape)]
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                for slot in range(len(box)):  # contiguous copies: they need no kernel
                    host[slot].copy_(box[slot], non_blocking=True)
            stream.synchronize()
            armed = (host.view(torch.int32).unflatten(-1, (-1, 4)) == SENTINEL).any(-1)
            total += int(armed.sum())
            slots += [f"slot {n}: {int(one.sum())} of {one.numel()}" for n, one in enumerate(armed) if one.any()]
        where = "; fragments still armed: " + ", ".join(slots) if slots else ""
        return max(total, 1), f"did not end within {DEADLINE:.0f} s{where}"

    def _warm(self) -> None:
        """Loads the producers' kernels."""
        one = torch.zeros(COLUMNS, dtype=torch.bfloat16, device=self.device)
        for stream in self._streams:
            with torch.cuda.stream(stream):
                torch.cuda._sleep(1)
                store(one, one.clone())
        torch.cuda.synchronize()


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without Python's garbage collector: to free a kernel or a graph waits for the one that polls, and so for ever."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def _errors_are_verdicts() -> Iterator[None]:
    try:
        yield
    except Broken:
        raise  # a verdict already, perhaps of another rank
    except Exception as error:  # torch's and Triton's are RuntimeErrors, those of CuTe's compiler are not
        if not any(mark in str(error) for mark in CUDA_ERRORS):
            raise
        raise Lost(1, f"ended in an error: {str(error).splitlines()[0]}") from error


def _together(group: Group | None, what: Callable[[], T]) -> T:
    def run() -> T:
        with _errors_are_verdicts():
            return what()

    return run() if group is None else group.together(run)


def _captured(prepared: Prepared) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # NCCL's own thread may call CUDA meanwhile
        prepared.launch()
    return graph


def _late(graph: torch.cuda.CUDAGraph, cycles: int) -> None:
    torch.cuda._sleep(cycles)
    graph.replay()


def store(target: Tensor, source: Tensor) -> None:
    """Copies bf16 rows of equal, contiguous layout in units of 16 bytes, those that a mailbox's readers check."""
    target.view(torch.complex128).copy_(source.view(torch.complex128))


def _returned(there: Call, call: Call) -> None:
    """Brings back what was written. An input that was written is written here, too, where it is noticed."""
    for name, tensor in there.outputs.items():
        call.outputs[name].copy_(tensor)
    for name, tensor in there.buffers.items():
        call.buffers[name].copy_(tensor)
    for name, value in there.inputs.items():
        if isinstance(value, Tensor):
            back = value.cpu()
            if not torch.equal(measure.bits(back), measure.bits(call.inputs[name])):
                call.inputs[name].copy_(back)
