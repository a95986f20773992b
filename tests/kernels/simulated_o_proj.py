"""The o-projection's adapter over ranks without its kernels: what stands for them, and the faults that they may have.

Read from oproj/{producer,consumer}.py and common/twoshot.py of vLLM 0.33.0. The AttnRes of the consumer is left out: its
output is the new prefix here.

``python -m tests.kernels.simulated_o_proj FOLDER INPUTS/TP/BATCH/REGIME/WRITE/PARITY[/FAULT] ...``
"""

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tests.kernels import simulation
from tests.kernels.simulation import Machine, multiplied
from validate.kernels.recording import kind
from validate.numerics import o_proj as cases
from validate.numerics.case import Case
from validate.paths.emulated import o_proj as emulated
from validate.paths.emulated.arithmetic import chain_sum
from validate.paths.emulated.mailbox import arm, fold
from validate.paths.vllm import o_proj
from validate.paths.vllm.source import Source

K = 256  # columns of a rank that are multiplied here: the product is not what is looked at
# What a kernel forgets or confuses.
FAULTS = (
    "leaves its slots",
    "leaves the owner's slots",
    "swaps the owners",
    "adds the prefix twice",
    "leaves out the last rank",
    "one slot on",
    "publishes -0",
)
# What the adapter does wrong: of which module, what in whose place.
EDITS = {
    "both layers in one half": (o_proj, "(0 if write else 2) + parity", "(0 if write else 2)"),
    "the sum onto the prefix": (o_proj, "summed.fill_(torch.nan if write else 0.0)", "summed[:batch].copy_(prefix)"),
    "the prefix of no call": (o_proj, "last(added)", "last(summed)"),
    "a block that is not written": (o_proj, 'bool(s["write"]))', "False)"),
    "the other kind of layer": (o_proj, "first = None if write else", "first = None if not write else"),
    "starts behind the prefix": (o_proj, "                out.fill_(torch.nan)\n", ""),
    "arms one half": (o_proj, "arm=lambda: arm(*own)", "arm=lambda: arm(*(box[:1] for box in own))"),
}


class Group(Machine):
    """The kernels: each its operands as its source names them."""

    def early(self, kernel: Any) -> bool:
        """Those that poll, at their start."""
        return kind(kernel) in ("OprojConsumer", "OprojFused")

    def _OprojProducer(self, kernel: Any, x: Tensor, w: Tensor, *target: Any) -> None:
        total = emulated.SpecializedOproj().split(x, w, kernel.parts, kernel.chains)
        self.publish(total, kernel.twoshot, *target)

    def _OprojUmma(self, kernel: Any, x: Tensor, w: Tensor, *target: Any) -> None:
        self.publish(multiplied(x, w), kernel.twoshot, *target)

    def _OprojFused(self, kernel: Any, x: Tensor, w: Tensor, box: Tensor, mc: int, slot: int, *rows: Any) -> None:
        old = self.prefetched(rows[0])
        self._OprojProducer(kernel.producer, x, w, box, mc, slot)
        self.consume(kernel.consumer, old, box, *rows)

    def _OprojConsumer(self, kernel: Any, mailbox: Tensor, prefix: Tensor, *rest: Any) -> None:
        old = self.prefetched(prefix)
        if kernel.twoshot:
            self.reduce(len(prefix), mailbox.shape[2], *rest[9:12])
        self.consume(kernel, old, mailbox, prefix, *rest)

    def publish(self, total: Tensor, twoshot: bool, box: Tensor, to: Any, slot: int) -> None:
        """Partials [rows, hidden]: to all, or each column to its owner's base address in ``to``."""
        partial = total.bfloat16() if self.fault == "publishes -0" else fold(total.bfloat16())
        capacity, width = box.shape[1:]
        assert len(partial) <= capacity
        if self.fault == "one slot on":
            slot = (slot + 1) % self.tp if self.rank else slot
        for row, values in enumerate(partial):
            offset = 2 * (slot * capacity + row) * width
            if not twoshot:
                self.multicast(to + offset, values)
                continue
            for owner, part in enumerate(values.split(width)):
                if self.fault == "swaps the owners":
                    owner ^= 1
                self.store(int(to[owner]) + offset, part)

    def reduce(self, rows: int, hidden: int, recv: Tensor, gather_mc: int, me: int) -> None:
        """The owner's sums of its columns, to all."""
        slots = recv[:, :rows]
        sums = fold(chain_sum(self.arrived(slots).float()).bfloat16())
        for row, values in enumerate(sums):
            self.multicast(gather_mc + 2 * (row * hidden + me * recv.shape[2]), values)
        if self.fault != "leaves the owner's slots":
            arm(slots)

    def consume(self, kernel: Any, old: Tensor, mailbox: Tensor, prefix: Tensor, *rest: Any) -> None:
        """Groups of threads poll neighbouring slots; the first group adds up the groups."""
        _, _, _, _, output, xmoe, hints = rest[:7]
        rows, each = len(prefix), -(-len(mailbox) // kernel.groups)
        slots = mailbox[:, :rows]
        parts = self.arrived(slots).float()
        if self.fault == "leaves out the last rank":
            parts[-1] = 0.0
        delta = chain_sum(torch.stack([chain_sum(group) for group in parts.split(each)])).bfloat16()
        new = delta
        if kernel.has_delta:
            for _ in range(2 if self.fault == "adds the prefix twice" else 1):
                new = (old.float() + new.float()).bfloat16()
        prefix.copy_(new)
        if self.fault != "leaves its slots":
            arm(slots)
        output.copy_(new)
        if xmoe is not None:
            xmoe[:, :rows] = fold(new)
            hints[0] += 28 * rows


def simulate(source: Source, case: str) -> dict[str, int]:
    """By output and buffer, the elements that are not those of the emulated stage."""
    inputs, *sizes, fault = (case if case.count("/") == 6 else case + "/").split("/")
    assert fault in ("", *FAULTS, *EDITS), fault
    arithmetic: Any = emulated
    arithmetic.gemm = multiplied
    named = dict(zip(("tp", "batch", "regime", "write", "parity"), map(int, sizes), strict=True))
    call = cases.build(Case("o_proj", named, inputs, 0))
    call = replace(call, inputs={name: tensor[:, :K].contiguous() for name, tensor in call.inputs.items()})
    with simulation.edited(*EDITS[fault], users=()) if fault in EDITS else nullcontext():
        adapter = o_proj.SpecializedOprojOverRanks()
        return simulation.played(Group(named["tp"], fault), source, adapter, call, emulated.SpecializedOproj())


if __name__ == "__main__":
    simulation.main(simulate)
