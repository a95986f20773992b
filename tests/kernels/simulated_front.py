"""The front's adapters with vLLM's host code and without its kernels: what stands for them (``simulation`` says how).

As their sources have it: moe/front.py, gemm/ws_gemm.py, moe/shared.py, moe/small_batch of vLLM 0.33.0.

``python -m tests.kernels.simulated_front FOLDER STAGE/INPUTS/TP/BATCH/REGIME[/FAULT] ...``
"""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from tests.kernels import simulation
from tests.kernels.simulation import Machine, armed, multiplied
from validate.kernels import driverless
from validate.numerics import latent_down, router
from validate.numerics.case import Case
from validate.paths import Lost
from validate.paths.emulated import latent_down as emulated_latent
from validate.paths.emulated import router as emulated_router
from validate.paths.emulated.mailbox import arm
from validate.paths.vllm import small_front
from validate.paths.vllm.latent_down import LatentDownOverRanks
from validate.paths.vllm.router import RouterOverRanks
from validate.paths.vllm.source import Source

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


class Group(Machine):
    """The kernels: each its operands as its source names them."""

    def __init__(self, tp: int, regime: int, fault: str | None) -> None:
        super().__init__(tp, fault)
        self.regime = regime

    def multicast(self, address: int, values: Tensor) -> None:
        """As always, but for a fault."""
        if self.fault != "one shard late" or self.rank != 3:
            super().multicast(address, values)

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
        slots = box[0, : kernel.batch]
        rows = self.arrived(slots)
        self.route(rows[:, 3584:].contiguous().view(torch.float32), bias, scale, ids, weights)
        latent.copy_(rows[:, :3584])
        if self.fault != "keeps the mailbox":
            arm(slots)

    def route(self, logits: Tensor, bias: Tensor, scale: float, ids: Tensor, weights: Tensor) -> None:
        """The choice of every row into ``ids`` and ``weights``."""
        stage = STAGES["router"][2]
        stage.tp, stage.regime = self.tp, self.regime
        chosen, shares = stage.route(logits, {"bias": bias, "top_k": 16, "scaling": scale})
        ids.copy_(chosen)
        weights.copy_(shares)

    def _MoeFrontTP8(self, kernel: Any, *operands: Any) -> None:
        router, bias, xmoe, epoch, scores, ids, weights, down, h2, latent, _, hg, par, par3, rank, mc, scale = operands[:17]
        x = self.published(xmoe, epoch, par, 1)
        self.small(x, down, mc + 2 * par * 8 * 3584 + rank * 896, 3584)
        self.route(multiplied(x, router), bias, scale, ids.view(1, 16), weights[par3, :1])
        self.armed_again(xmoe, epoch, scores, hg, par)
        latent.copy_(self.arrived(h2[par, :1])[0])
        arm(h2[par, 0])

    def _MoeFrontTP16(self, kernel: Any, *operands: Any) -> None:
        router, bias, xmoe, epoch, scores, ids, weights, down, h2 = operands[:9]
        _, hg, _, _, _, par, par3, rank, mc, scale = operands[9:19]
        rows = kernel.batch
        x = self.published(xmoe, epoch, par, rows)
        self.small(x, down, mc + 2 * (par * 8 * 3584 + rank * 224), 3584)
        logits = multiplied(x, router)
        self.route(logits, bias, scale, ids.view(rows, 16), weights[par3, :rows])
        self.armed_again(xmoe, epoch, scores, hg, par)
        arm(h2[1 - par, :rows])
        if self.fault != "keeps the placement":
            start = (3 - par) * 32 + (0 if rows == 1 else 8)
            epoch[start : start + (3 if rows == 1 else 8)] = 0

    def published(self, xmoe: Tensor, epoch: Tensor, par: int, rows: int) -> Tensor:
        """The rows of x, for which the kernel polls, and for their hint before them."""
        x = xmoe[1 - par if self.fault == "reads the other parity" else par, 0, :rows]
        hints, left = int(epoch.view(torch.int32)[32 * par]), int(armed(x).sum())
        if hints < 28 * rows or left:
            raise Lost(max(left, 1), f"waits for ever: {hints} hints, {left} words of the row armed")
        return x.clone()

    def small(self, x: Tensor, down: Tensor, address: int, pitch: int) -> None:
        """This rank's columns of the latent, to all ranks."""
        for row, values in enumerate(multiplied(x, down)):
            self.multicast(address + 2 * row * pitch, values.bfloat16() + 0.0)

    def armed_again(self, xmoe: Tensor, epoch: Tensor, scores: Tensor, hg: Tensor, par: int) -> None:
        """The other parity's parts, which the layer before has used."""
        if self.fault != "keeps the other row":
            arm(xmoe[1 - par])
        if self.fault != "leaves the hint":
            epoch[32 * (1 - par)] = 0
        arm(scores.view(2, -1)[1 - par])
        hg.view(2, -1)[1 - par] = 0


def prepare(source: Source) -> None:
    """Also stands in for the fronts' descriptors."""
    simulation.prepare(source)
    front: Any = source.module(f"{driverless.CUTEDSL}.moe.front")
    front.weight_maps = lambda gate_up, down, front=None: _described(front)


FRONTS: dict[int, Tensor] = {}  # the packed weights behind a descriptor, by its address


def _described(front: Tensor | None) -> Tensor:
    found = torch.empty(256 if front is None else 384, dtype=torch.uint8)
    if front is not None:
        FRONTS[found.data_ptr()] = front
    return found


def simulate(source: Source, case: str) -> dict[str, int]:
    """By output, the elements that are not those of the emulated stage."""
    stage, inputs, *sizes, fault = (case if case.count("/") == 5 else case + "/").split("/")
    assert fault in ("", *FAULTS), fault
    tp, batch, regime = map(int, sizes)
    for module, name in ((emulated_latent, "front_gemm"), (emulated_latent, "lane_dot"), (emulated_router, "front_gemm")):
        setattr(module, name, multiplied)
    small_front.HINTS = 27 if fault == "a hint too few" else 28
    changed: Any = SimpleNamespace(add=lambda x, _, out: out.copy_(x))
    small_front.torch = changed if fault == "the row as it is" else torch
    cases, adapter, emulated = STAGES[stage]
    call = cases.build(Case(stage, {"tp": tp, "batch": batch, "regime": regime}, inputs, 0))
    return simulation.played(Group(tp, regime, fault), source, adapter, call, emulated)


if __name__ == "__main__":
    simulation.main(simulate, prepare)
