"""The front's adapters with vLLM's host code and without its kernels: each launch is played by the emulation, on a CPU.

A kernel here reads and writes the memory that it was launched with, as its source does (moe/front.py, gemm/ws_gemm.py,
moe/shared.py, moe/small_batch of 0.33.0): operands by their places, slots and columns by the scalars that it was given,
multicast stores into all ranks' mailboxes. Prints a line a case: the elements in which each output differs from the emulated
stage.

``python -m tests.kernels.simulated_front FOLDER STAGE/INPUTS/TP/BATCH/REGIME[/FAULT] ...``, in a process of its own.
"""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from validate.kernels import driverless
from validate.kernels.deployment import Deployment
from validate.kernels.launches import View
from validate.model.call import Call
from validate.numerics import latent_down, router
from validate.numerics.case import Case
from validate.paths import Broken, Lost
from validate.paths.emulated import latent_down as emulated_latent
from validate.paths.emulated import router as emulated_router
from validate.paths.vllm import ranks, small_front
from validate.paths.vllm.adapter import Prepared
from validate.paths.vllm.latent_down import LatentDownOverRanks
from validate.paths.vllm.router import RouterOverRanks
from validate.paths.vllm.source import Source, opened

ARMED = -0x80000000
STAGES: dict[str, Any] = {
    "router": (router, RouterOverRanks(), emulated_router.SpecializedRouter()),
    "latent_down": (latent_down, LatentDownOverRanks(), emulated_latent.SpecializedLatentDown()),
}
# What a kernel forgets or an adapter confuses; the judge, or the adapter's own checks, should see it.
FAULTS = (
    "keeps the mailbox",
    "keeps the other row",
    "keeps the placement",
    "reads the other parity",
    "leaves the hint",
    "one shard late",
    "a hint too few",
    "the row as it is",
)


def multiplied(x: Tensor, weight: Tensor, *_: int) -> Tensor:
    """fp32 ``x @ weight.T``, exact before its rounding: the order of summation is not what is looked at here."""
    return (x.double() @ weight.double().T).float()


class Machine:
    """The ranks' memory, and the launches that wait for all ranks to have made theirs."""

    def __init__(self, tp: int, regime: int, fault: str | None) -> None:
        self.tp, self.regime, self.fault = tp, regime, fault
        self.rank = 0
        self.boxes: list[list[Tensor]] = [[] for _ in range(tp)]  # by rank, in the order of their allocation
        self.waiting: list[list[Callable[[], None]]] = [[] for _ in range(tp)]

    def allocate(self, *arguments: Any, **options: Any) -> Tensor:
        """Symmetric memory of the rank that is being prepared."""
        self.boxes[self.rank].append(torch.empty(*arguments, **options))
        return self.boxes[self.rank][-1]

    def meet(self, tensor: Tensor, group: object) -> SimpleNamespace:
        """Its multicast address: which allocation it is, far enough apart for offsets."""
        place = next(n for n, box in enumerate(self.boxes[self.rank]) if box is tensor)
        return SimpleNamespace(multicast_ptr=(place + 1) << 40, buffer_ptrs=[1] * self.tp)

    def multicast(self, address: int, values: Tensor) -> None:
        """Stores contiguous values at an address of every rank's mailbox."""
        if self.fault == "one shard late" and self.rank == 3:
            return
        place, offset = (address >> 40) - 1, address % (1 << 40) // 2
        for boxes in self.boxes:
            target = boxes[place].view(-1)[offset:].view(values.dtype)
            target[: values.numel()] = values.flatten()

    def compile(self, kernel: Any, *_: Any, **__: Any) -> Callable[..., None]:
        """Instead of ``cute.compile``: a launch by the kernel's class."""
        play = getattr(self, f"_{type(kernel).__name__}", None)

        def launch(*given: Any) -> None:
            assert play is not None, type(kernel).__name__
            operands = [g.tensor if isinstance(g, View) else getattr(g, "value", g) for g in given]
            self.waiting[self.rank].append(lambda: play(kernel, *operands))

        return launch

    def run(self) -> None:
        """All ranks' first kernels, then their second ones, as polling orders them."""
        while any(self.waiting):
            for rank, kernels in enumerate(self.waiting):
                self.rank = rank
                if kernels:
                    kernels.pop(0)()

    def publish(self, product: Tensor, split: int, valid: int, pitch: int, mc: int, slot: int, base: int) -> None:
        """A GEMM's fp32 [rows, n] in the front's mailbox: logits, then the latent, without -0."""
        for row, values in enumerate(product):
            self.multicast(mc + 2 * (row * pitch + 3584 + 2 * slot), values[:valid] + 0.0)
            self.multicast(mc + 2 * (row * pitch + base), values[split:].bfloat16() + 0.0)

    def _WsGemm(self, kernel: Any, x: Tensor, w: Tensor, box: Tensor, mc: int, slot: int, base: int, *_: Any) -> None:
        product = multiplied(x, w)
        self.publish(product, kernel.split, kernel.valid, box.shape[2], mc, slot, base)

    def _SharedUmma(self, kernel: Any, x: Tensor, maps: Tensor, *rest: Any) -> None:
        rows, split, valid, pitch = kernel.front
        product = multiplied(x, FRONTS[maps.data_ptr()])
        assert product.shape[1] == rows
        self.publish(product, split, valid, pitch, *rest[8:11])

    def _RouteSitu(self, kernel: Any, *operands: Any) -> None:
        _, bias, ids, weights, box, latent, _, _, scale = operands[:9]
        assert kernel.roles == ("route", "copy")
        rows = box[0, : kernel.batch]
        armed = rows.view(torch.int32) == ARMED
        rows.view(torch.int32)[armed] = -1  # where a kernel would wait for ever
        self.route(rows[:, 3584:].contiguous().view(torch.float32), bias, scale, ids, weights)
        latent.copy_(rows[:, :3584])
        if self.fault != "keeps the mailbox":
            rows.view(torch.int32).fill_(ARMED)

    def route(self, logits: Tensor, bias: Tensor, scale: float, ids: Tensor, weights: Tensor) -> None:
        """The choice of every row into ``ids`` and ``weights``."""
        stage = STAGES["router"][2]
        stage.tp, stage.regime = self.tp, self.regime
        chosen, shares = stage.route(logits, {"bias": bias, "top_k": 16, "scaling": scale})
        ids.copy_(chosen)
        weights.copy_(shares)

    def _MoeFrontTP8(self, kernel: Any, *operands: Any) -> None:
        router, bias, xmoe, epoch, scores, ids, weights, down, h2, latent, _, hg, par, par3, rank, mc, scale = operands[:17]
        x = self.arrived(xmoe, epoch, par, 1)
        self.small(x, down, mc + 2 * par * 8 * 3584 + rank * 896, 3584)
        self.route(multiplied(x, router), bias, scale, ids.view(1, 16), weights[par3, :1])
        self.armed_again(xmoe, epoch, scores, hg, par)

        def gather() -> None:  # later in the same kernel: it polls for the other ranks' columns
            latent.copy_(h2[par, 0])
            h2[par, 0].view(torch.int32).fill_(ARMED)

        self.waiting[self.rank].append(gather)

    def _MoeFrontTP16(self, kernel: Any, *operands: Any) -> None:
        router, bias, xmoe, epoch, scores, ids, weights, down, h2 = operands[:9]
        _, hg, _, _, _, par, par3, rank, mc, scale = operands[9:19]
        rows = kernel.batch
        x = self.arrived(xmoe, epoch, par, rows)
        self.small(x, down, mc + 2 * (par * 8 * 3584 + rank * 224), 3584)
        logits = multiplied(x, router)
        self.route(logits, bias, scale, ids.view(rows, 16), weights[par3, :rows])
        self.armed_again(xmoe, epoch, scores, hg, par)
        h2[1 - par, :rows].view(torch.int32).fill_(ARMED)
        if self.fault != "keeps the placement":
            start = (3 - par) * 32 + (0 if rows == 1 else 8)
            epoch[start : start + (3 if rows == 1 else 8)] = 0

    def arrived(self, xmoe: Tensor, epoch: Tensor, par: int, rows: int) -> Tensor:
        """The rows of x, for which the kernel polls, and for their hint before them."""
        x = xmoe[1 - par if self.fault == "reads the other parity" else par, 0, :rows]
        hints, armed = int(epoch.view(torch.int32)[32 * par]), int((x.view(torch.int32) == ARMED).sum())
        if hints < 28 * rows or armed:
            raise Lost(max(armed, 1), f"waits for ever: {hints} hints, {armed} words of the row armed")
        return x.clone()

    def small(self, x: Tensor, down: Tensor, address: int, pitch: int) -> None:
        """This rank's columns of the latent, to all ranks."""
        for row, values in enumerate(multiplied(x, down)):
            self.multicast(address + 2 * row * pitch, values.bfloat16() + 0.0)

    def armed_again(self, xmoe: Tensor, epoch: Tensor, scores: Tensor, hg: Tensor, par: int) -> None:
        """The other parity's parts, which the layer before has used."""
        if self.fault != "keeps the other row":
            xmoe[1 - par].view(torch.int32).fill_(ARMED)
        if self.fault != "leaves the hint":
            epoch[32 * (1 - par)] = 0
        scores.view(torch.int32).view(2, -1)[1 - par] = ARMED
        hg.view(2, -1)[1 - par] = 0


def prepare(source: Source) -> None:
    """Stands in for what vLLM's host code needs, once in a process."""
    driverless.prepare(source, "sm_103a", View)
    front: Any = source.module(f"{driverless.CUTEDSL}.moe.front")
    front.weight_maps = lambda gate_up, down, front=None: _described(front)


FRONTS: dict[int, Tensor] = {}  # the packed weights behind a descriptor, by its address


def _described(front: Tensor | None) -> Tensor:
    found = torch.empty(256 if front is None else 384, dtype=torch.uint8)
    if front is not None:
        FRONTS[found.data_ptr()] = front
    return found


def simulate(
    source: Source, stage: str, inputs: str, tp: int, batch: int, regime: int, fault: str | None = None
) -> dict[str, int]:
    """By output, the elements that are not those of the emulated stage."""
    assert fault is None or fault in FAULTS
    driverless.deploy(Deployment(tp, 1, False, (regime,)))
    driverless.forget()
    machine = Machine(tp, regime, fault)
    cute: Any = importlib.import_module("cutlass.cute")
    experimental: Any = importlib.import_module("cutlass.cute.experimental")
    cute.compile = experimental.compile = machine.compile
    memory: Any = sys.modules["torch.distributed._symmetric_memory"]
    memory.empty, memory.rendezvous = machine.allocate, machine.meet
    for module, name in ((emulated_latent, "front_gemm"), (emulated_latent, "lane_dot"), (emulated_router, "front_gemm")):
        setattr(module, name, multiplied)
    cases, adapter, emulated = STAGES[stage]
    call = cases.build(Case(stage, {"tp": tp, "batch": batch, "regime": regime}, inputs, 0))
    expected, found = call.fresh(), call.fresh()
    emulated(expected)
    shares: list[Call] = []
    prepared: list[Prepared] = []
    for machine.rank in range(tp):
        shares.append(ranks.share(found, machine.rank))
        group = SimpleNamespace(rank=machine.rank, size=tp, process_group=None)
        prepared.append(adapter.prepare(shares[-1], source, group))
    for _ in range(2):  # the second step finds what the first one has left
        for one in prepared:
            assert one.arm is not None
            one.arm()
        for machine.rank, one in enumerate(prepared):
            one.launch()
        machine.run()
        for one in prepared:
            assert one.collect is not None
            one.collect()
    differing = {}
    for name, tensor in expected.outputs.items():
        there = torch.cat([share.outputs[name] for share in shares])
        differing[name] = int((there.view(torch.int16) != tensor.view(torch.int16)).sum())
    return differing


def _main(folder: str, *cases: str) -> None:
    source = opened(Path(folder))
    prepare(source)
    for case in cases:
        stage, inputs, tp, batch, regime, *fault = case.split("/")
        small_front.HINTS = 27 if fault == ["a hint too few"] else 28
        changed: Any = SimpleNamespace(add=lambda x, _, out: out.copy_(x))
        small_front.torch = changed if fault == ["the row as it is"] else torch
        try:
            said = str(simulate(source, stage, inputs, int(tp), int(batch), int(regime), *fault))
        except Broken as error:
            said = f"broken: {error}"
        print(f"{case}: {said}")


if __name__ == "__main__":
    _main(*sys.argv[1:])
