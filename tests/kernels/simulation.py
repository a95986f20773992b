"""Adapters over ranks with vLLM's host code and without its kernels: all ranks on a CPU, in one process.

In a kernel's place a function acts on the memory that the launch was given, as the kernel's source does: operands by their
places, slots and columns by the scalars, stores at multicast and peer addresses into other ranks' mailboxes. Each rank's
launches run in a thread of its own, one at a time: a rank goes on until it polls for what is not there, and then the next
one does. So the ranks are at different places, as on GPUs, and the last one runs ahead of the others.
"""

import ctypes
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Semaphore, Thread
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from validate.kernels import driverless
from validate.kernels.deployment import Deployment
from validate.kernels.launches import View
from validate.kernels.recording import kind
from validate.model.call import Call
from validate.numerics.measure import bits
from validate.paths import Broken, Lost
from validate.paths.emulated.mailbox import SENTINEL
from validate.paths.vllm import mailboxes, ranks
from validate.paths.vllm.adapter import OverRanks
from validate.paths.vllm.source import Source, opened

PATIENCE = 20  # turns of all other ranks without what is polled for: it will not come
PEER, PLACE = 50, 40  # bits of an address below its rank and its allocation; below them, bytes


def multiplied(x: Tensor, weight: Tensor, *_: int) -> Tensor:
    """fp32 ``x @ weight.T``, exact before its rounding: the order of summation is not what is looked at here."""
    return (x.double() @ weight.double().T).float()


class Machine:
    """The ranks' memory, and their turns. A subclass has a method for each kernel, named like its class, ``_`` before."""

    def __init__(self, tp: int, fault: str | None = None) -> None:
        self.tp, self.fault = tp, fault
        self.rank = 0  # whose turn it is
        self._boxes: list[list[Tensor]] = []  # by allocation and rank
        self._allocated = [0] * tp
        self._writes = [_Writes(self) for _ in range(tp)]
        self._unfinished: list[set[int]] = [set() for _ in range(tp)]  # by rank, memory whose writer may not have ended

    def allocate(self, *arguments: Any, **options: Any) -> Tensor:
        """Symmetric memory of the rank that is being prepared: all allocate the same in the same order."""
        place = self._allocated[self.rank]
        self._allocated[self.rank] += 1
        if place == len(self._boxes):
            self._boxes.append([torch.empty(*arguments, **options) for _ in range(self.tp)])
        return self._boxes[place][self.rank]

    def use(self) -> None:
        """As a case before, with the same mailboxes, may have left them: armed nowhere."""
        for box in (box for boxes in self._boxes for box in boxes):
            box.fill_(1.0)

    def meet(self, tensor: Tensor, group: object) -> SimpleNamespace:
        """Its addresses, far enough apart for offsets, and all ranks' tensors."""
        place, boxes = next((n, boxes) for n, boxes in enumerate(self._boxes) if boxes[self.rank] is tensor)
        address = (place + 1) << PLACE
        peers = [(rank + 1 << PEER) + address for rank in range(self.tp)]
        return SimpleNamespace(multicast_ptr=address, buffer_ptrs=peers, get_buffer=lambda rank, *_: boxes[rank])

    def multicast(self, address: int, values: Tensor) -> None:
        """Stores contiguous values at a multicast address, hence in every rank's memory."""
        assert address >> PEER == 0, "a peer's address"
        for rank in range(self.tp):
            self._store(rank, address, values)

    def store(self, address: int, values: Tensor) -> None:
        """Stores contiguous values at a peer's address."""
        assert address >> PEER > 0, "a multicast address"
        self._store((address >> PEER) - 1, address % (1 << PEER), values)

    def _store(self, rank: int, address: int, values: Tensor) -> None:
        box = self._boxes[(address >> PLACE) - 1][rank]
        target = box.view(-1)[address % (1 << PLACE) // box.element_size() :].view(values.dtype)
        target[: values.numel()] = values.flatten()

    def compile(self, kernel: Any, *_: Any, **__: Any) -> Callable[..., None]:
        """Instead of ``cute.compile``: a launch by the kernel's name, without its stream."""
        name = kind(kernel)
        play = getattr(self, "_" + name.replace(".", "_"), None)

        def launch(*given: Any) -> None:
            assert play is not None, name
            rank = self.rank
            with self._writes[rank].left():
                play(kernel, *(g.tensor if isinstance(g, View) else getattr(g, "value", g) for g in given[:-1]))
            if not self.early(kernel):
                self._unfinished[rank] = set()

        return launch

    def early(self, kernel: Any) -> bool:
        """Whether a kernel lets its successor start before it has itself waited for its predecessor."""
        return bool(getattr(kernel, "early", False))

    def wrote(self, tensor: Tensor) -> None:
        """One of torch's own kernels, which wait for all before them: the kernel behind it may start before it has ended."""
        self._unfinished[self.rank] = {_memory(tensor)}

    def prefetched(self, tensor: Tensor) -> Tensor:
        """What a kernel reads before it waits for the kernel before it."""
        if _memory(tensor) in self._unfinished[self.rank]:
            raise Broken("kernel", "ordered", 1, "reads what the kernel before it may not have written yet")
        return tensor.clone()

    def arrived(self, slots: Tensor) -> Tensor:
        """The contents of slots, for which it polls: the other ranks go on meanwhile."""
        for _ in range(PATIENCE):
            if not bool(armed(slots).any()):
                return slots.clone()
            rank = self.rank
            self._next(rank)
            self._turn(rank)
        left = int(armed(slots).sum())
        raise Lost(left, f"rank {self.rank} waits for ever: {left} words are armed")

    def together(self, launches: Sequence[Callable[[], None]]) -> None:
        """Runs all ranks' launches. Raises the first error of any."""
        self._turns = [Semaphore(0) for _ in launches]
        self._running, self._errors = set(range(self.tp)), list[Exception]()
        threads = [Thread(target=self._run, args=pair) for pair in enumerate(launches)]
        for thread in threads:
            thread.start()
        self._next(-1)
        for thread in threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def _run(self, rank: int, launch: Callable[[], None]) -> None:
        self._turn(rank)
        try:
            with self._writes[rank]:
                launch()
        except Exception as error:
            self._errors.append(error)
        self._running.remove(rank)
        self._next(rank)

    def _turn(self, rank: int) -> None:
        self._turns[rank].acquire()
        self.rank = rank

    def _next(self, rank: int) -> None:
        after = [(rank + n) % self.tp for n in range(1, self.tp + 1)]
        for one in after:
            if one in self._running:
                self._turns[one].release()
                return


class _Writes(TorchDispatchMode):
    """Tells a machine what torch writes in place, in a rank's thread."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._machine = machine

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        done = func(*args, **(kwargs or {}))
        for argument, value in zip(func._schema.arguments, args, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                self._machine.wrote(value)
        return done

    @contextmanager
    def left(self) -> Iterator[None]:
        """Not what is written here."""
        self.__exit__(None, None, None)
        try:
            yield
        finally:
            self.__enter__()


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def armed(slots: Tensor) -> Tensor:
    """Which words hold the sentinel."""
    return slots.view(torch.int32) == SENTINEL


def described(descriptor: Tensor) -> Tensor:
    """The memory that the (only) TMA descriptor spans, bf16 [outermost, ..., innermost]."""
    pointer, _, dims, strides, *_ = _MAPS[descriptor.data_ptr()][1]
    size = dims[-1] * strides[-1]  # bytes
    memory = torch.frombuffer((ctypes.c_char * size).from_address(pointer), dtype=torch.bfloat16)
    return memory.as_strided(dims[::-1], [stride // 2 for stride in strides[::-1]] + [1])


_MAPS: dict[int, tuple[Tensor, Any]] = {}  # by the descriptor's address: it and its specification


def _map(specs: list[Any], device: object) -> Tensor:
    assert len(specs) == 1
    descriptor = torch.empty(128, dtype=torch.uint8)
    _MAPS[descriptor.data_ptr()] = descriptor, specs[0]
    return descriptor


def prepare(source: Source) -> None:
    """Stands in for what vLLM's host code needs, once in a process."""
    torch.set_num_threads(1)
    driverless.prepare(source, "sm_103a", View)
    tail: Any = source.module(f"{driverless.CUTEDSL}.moe.tail_runtime")
    tail.tensor_maps = _map


def _deploy(machine: Machine, rows: int) -> None:
    driverless.deploy(Deployment(machine.tp, 1, False, (rows,)))
    driverless.forget()
    mailboxes._allocated.cache_clear()
    _MAPS.clear()
    cute: Any = importlib.import_module("cutlass.cute")
    experimental: Any = importlib.import_module("cutlass.cute.experimental")
    cute.compile = experimental.compile = machine.compile
    memory: Any = sys.modules["torch.distributed._symmetric_memory"]
    memory.empty, memory.rendezvous = machine.allocate, machine.meet


def played(machine: Machine, source: Source, adapter: OverRanks, call: Call, emulated: Callable[[Call], None]) -> dict[str, int]:
    """By output and buffer, the elements in which two launches differ from the emulated stage.

    The first has the step's inputs one column on: what it leaves, or what was bound to them, the second one finds.
    """
    _deploy(machine, call.shape["batch"])
    moved = {name: call.inputs[name].roll(1, -1) for name in adapter.step}
    there = replace(call, inputs={**call.inputs, **{name: torch.empty_like(t) for name, t in moved.items()}}).fresh()
    shares, prepared = [ranks.share(there, rank) for rank in range(machine.tp)], []
    for rank, share in enumerate(shares):
        machine.rank = rank
        prepared.append(adapter.prepare(share, source, SimpleNamespace(rank=rank, size=machine.tp, process_group=None)))
    machine.use()
    differing: dict[str, int] = {}
    for step in (replace(call, inputs={**call.inputs, **moved}), call):
        expected, found = step.fresh(), step.fresh()
        for rank, share in enumerate(shares):
            _renew(share, ranks.share(found, rank), adapter.step)
        emulated(expected)
        for one in prepared:
            assert one.arm is not None
            one.arm()
        machine.together([one.launch for one in prepared])
        for one in prepared:
            assert one.collect is not None
            one.collect()
        ranks.merge(found, shares[0], lambda mine: _of_all(mine, shares))
        for name in (*found.outputs, *found.buffers):
            pair = bits(found.written(name)), bits(expected.written(name))
            differing[name] = differing.get(name, 0) + int((pair[0] != pair[1]).sum())
    return differing


def _renew(share: Call, given: Call, step: Sequence[str]) -> None:
    pairs: list[tuple[Mapping[str, Any], Mapping[str, Any], Sequence[str]]] = [
        (share.inputs, given.inputs, step),
        (share.outputs, given.outputs, list(share.outputs)),
        (share.buffers, given.buffers, list(share.buffers)),
    ]
    for there, here, names in pairs:
        for name in names:
            there[name].copy_(here[name])


def _of_all(mine: Tensor, shares: list[Call]) -> list[Tensor]:
    name = next(name for name in (*shares[0].outputs, *shares[0].buffers) if shares[0].written(name) is mine)
    return [share.written(name) for share in shares]


@contextmanager
def edited(module: ModuleType, old: str, new: str, users: Sequence[ModuleType]) -> Iterator[None]:
    """A module of ours as if this were in its text. ``users`` import from it by name."""
    assert module.__file__ is not None
    text = Path(module.__file__).read_text()
    assert text.count(old) == 1, old
    exec(compile(text.replace(old, new), module.__file__, "exec"), vars(module))
    try:
        for user in users:
            importlib.reload(user)
        yield
    finally:
        for one in (module, *users):
            importlib.reload(one)


def main(simulate: Callable[[Source, str], dict[str, int]], ready: Callable[[Source], None] = prepare) -> None:
    """``FOLDER CASE ...``: prints a line a case."""
    folder, *cases = sys.argv[1:]
    source = opened(Path(folder))
    ready(source)
    for case in cases:
        try:
            said = str(simulate(source, case))
        except Broken as error:
            said = f"broken: {error}"
        print(f"{case}: {said}")
