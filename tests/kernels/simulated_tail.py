"""The MoE tail's adapter over ranks without its kernels: what stands for them, and the faults that they may have.

Read from moe/tail.py, common/twoshot.py and attn_res/kernel.py of vLLM 0.33.0. The AttnRes' mixture is left out: its output
is the new prefix here.

``python -m tests.kernels.simulated_tail FOLDER INPUTS/TP/BATCH/REARM[/FAULT] ...``
"""

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from tests.kernels import simulation
from tests.kernels.simulation import Machine, armed, described, multiplied
from validate.numerics import moe_tail as cases
from validate.numerics.case import Case
from validate.paths import Lost
from validate.paths.emulated import moe_tail as emulated
from validate.paths.emulated.arithmetic import chain_sum
from validate.paths.emulated.mailbox import arm, fold
from validate.paths.vllm import moe_tail, tail_slots
from validate.paths.vllm.source import Source

LATENT, HIDDEN, TOP_K = 3584, 7168, 16
WIDTHS = (TOP_K * LATENT, TOP_K, HIDDEN)  # a row's of what a tail finalizes: routed rows, weights, shared rows
# What a kernel forgets or confuses.
FAULTS = (
    "one third on",
    "arms a row too few",
    "arms no sums",
    "arms no inputs",
    "leaves its row",
    "swaps the owners",
    "pushes -0",
    "leaves out the last rank",
    "another rank's columns",
)
# What the adapter does wrong: of which module, what in whose place.
EDITS = {
    "a layer on": (moe_tail, "own, old = ordinal % 3,", "own, old = (ordinal + 1) % 3,"),
    "arms only once": (tail_slots, "        arm(*self._idle, *self._layered)\n", ""),
    "publishes as the first rank": (tail_slots, "store(box[self._own, self._rank, :rows]", "store(box[self._own, 0, :rows]"),
    "publishes to the owners in reverse": (tail_slots, "transpose(0, 1)", "transpose(0, 1).flip(0)"),
    "small inputs of the layer before": (tail_slots, "box[self._own, : len(rows)].copy_", "box[self._old, : len(rows)].copy_"),
    "pushes another call's rows": (moe_tail, "tail.push(shared)", "tail.push(torch.zeros_like(shared))"),
    "starts behind the prefix": (
        moe_tail,
        "consumer.clear()\n                tail.push(shared)",
        "tail.push(shared)\n                consumer.prefix.zero_()",
    ),
    "keeps the prefix": (moe_tail, "        self.prefix.zero_()\n", ""),
    "the rows of every rank": (moe_tail, 'i["routed"].flatten(0, 2)', 'i["routed"].flatten(0, 2).flip(0)'),
    "the smallest batch's ordinal": (moe_tail, "ordinal = 0 if rearm > batch else 1 + batch % 3", "ordinal = 1 + batch % 3"),
}


class Group(Machine):
    """The kernels: each its operands as its source names them. Mailboxes and rows come flat."""

    def _MoeTail(self, kernel: Any, *operands: Any) -> None:
        latent, shared, maps, gamma, *inputs, peers, _, latent_mc, output_mc, par, rank, capacity, eps, old, rearm = operands
        tp, batch = kernel.tp, kernel.batch
        assert kernel.mode in ("front", "front_poll")
        par = self.third(par)
        polls = kernel.mode == "front_poll"
        given = [t.view(3, -1)[par] if polls else t for t in inputs]
        routed, weights, pushed = (t.view(-1, width)[:batch] for t, width in zip(given, WIDTHS, strict=True))
        unwritten = sum(int((t.view(torch.int16) == -1).sum()) for t in (routed, weights, pushed))
        if polls and unwritten:
            raise Lost(unwritten, f"waits for ever: {unwritten} values of its inputs")
        partial = emulated.SpecializedMoeTail().finalize(routed.view(1, batch, TOP_K, LATENT), weights)[0]
        for token, values in enumerate(partial):
            self.multicast(latent_mc + 2 * ((par * tp + rank) * capacity + token) * LATENT, values)
        self.scatter(pushed, peers, par, rank, capacity)
        parts = latent.view(3, tp, capacity, LATENT)[par, :, :batch]
        sums = self.summed(self.arrived(parts))
        self.finish(kernel.cluster, sums, (shared, par, capacity), (described(maps).flatten(1), gamma, eps), (output_mc, rank))
        self.arm_again((latent, shared), None, old, capacity, rearm)
        if polls and self.fault != "arms no inputs":
            for t, width in zip(inputs, WIDTHS, strict=True):
                t.view(3, -1, width)[old, :rearm].view(torch.int32).fill_(-1)

    def _WaveMoeTail(self, kernel: Any, *operands: Any) -> None:
        latent, shared, weight, gamma, _, _, _, _, _, to, output_mc, par, rank, capacity, eps, old, rearm, *reduced = operands
        tp, batch = kernel.tp, kernel.batch
        par = self.third(par)
        parts = latent.view(3, tp, capacity, -1)[par, :, :batch]
        if reduced:
            rows = reduced[0].view(3, capacity, LATENT)[par, :batch]
            if kernel.twoshot:
                for token, values in enumerate(fold(self.summed(self.arrived(parts)))):
                    self.multicast(to + 2 * ((par * capacity + token) * LATENT + rank * parts.shape[2]), values)
            else:
                # Other thread blocks poll for the sums: what is not armed they take as it is.
                sums = fold(self.summed(self.arrived(parts))).view(torch.int32)
                rows.view(torch.int32).copy_(torch.where(armed(rows), sums, rows.view(torch.int32)))
            sums = self.arrived(rows)
        else:
            sums = self.summed(self.arrived(parts))
        columns = described(weight) if kernel.umma else weight.view(-1, LATENT)
        self.finish(16, sums, (shared, par, capacity), (columns, gamma, eps), (output_mc, rank))
        self.arm_again((latent, shared), reduced[0] if reduced else None, old, capacity, rearm)

    def _WaveMoeTail_push(self, kernel: Any, shared: Tensor, peers: Tensor, parity: int, rank: int, capacity: int) -> None:
        self.scatter(shared, peers, parity, rank, capacity)

    def _ClusterAttnRes(self, kernel: Any, delta: Tensor, prefix: Tensor, *rest: Any) -> None:
        blocks, _, _, _, output, _, _, *aux = rest
        assert kernel.slots == 1
        assert kernel.has_delta
        old = self.prefetched(prefix)
        slots = delta[:, : len(prefix)]
        new = (old.float() + self.arrived(slots)[0].float()).bfloat16()
        if self.fault != "leaves its row":
            arm(slots)
        for target in (prefix, output, *aux, *([blocks[:, kernel.write]] if kernel.write >= 0 else [])):
            target.copy_(new)

    def third(self, parity: int) -> int:
        """Of the mailboxes."""
        return (parity + 1) % 3 if self.fault == "one third on" else parity

    def scatter(self, shared: Tensor, peers: Tensor, parity: int, rank: int, capacity: int) -> None:
        """Each rank's columns of the shared rows [rows, hidden], to it."""
        width = HIDDEN // self.tp
        for token, values in enumerate(shared if self.fault == "pushes -0" else fold(shared)):
            for owner, part in enumerate(values.split(width)):
                if self.fault == "swaps the owners":
                    owner ^= 1
                self.store(int(peers[owner]) + 2 * ((parity * self.tp + rank) * capacity + token) * width, part)

    def summed(self, parts: Tensor) -> Tensor:
        """bf16 [rows, width] of all ranks' parts."""
        if self.fault == "leaves out the last rank":
            parts = parts[:-1]
        return chain_sum(parts.float()).bfloat16()

    def finish(self, slices: int, latent: Tensor, box: tuple[Any, ...], layer: tuple[Any, ...], to: tuple[int, int]) -> None:
        """Norm, this rank's columns of the up projection and of the shared rows, to all."""
        (shared, par, capacity), (columns, gamma, eps), (output_mc, rank) = box, layer, to
        stage = emulated.SpecializedMoeTail()
        stage.slices = slices
        call: Any = None
        up = stage.up(stage.normalise(latent, {"norm": gamma, "eps": eps}), columns, call)
        parts = shared.view(3, self.tp, capacity, -1)[par, :, : len(latent)]
        start = (rank ^ 1 if self.fault == "another rank's columns" else rank) * len(columns)
        for token, values in enumerate(fold(stage.combine(up, self.summed(self.arrived(parts))))):
            self.multicast(output_mc + 2 * (token * HIDDEN + start), values)

    def arm_again(self, boxes: tuple[Tensor, Tensor], reduced: Tensor | None, old: int, capacity: int, rows: int) -> None:
        """What the layer before has used."""
        if self.fault == "arms a row too few":
            rows -= 1
        for box in boxes:
            arm(box.view(3, self.tp, capacity, -1)[old, :, :rows])
        if reduced is not None and self.fault != "arms no sums":
            arm(reduced.view(3, capacity, -1)[old, :rows])


def simulate(source: Source, case: str) -> dict[str, int]:
    """By output and buffer, the elements that are not those of the emulated stage."""
    inputs, *sizes, fault = (case if case.count("/") == 4 else case + "/").split("/")
    assert fault in ("", *FAULTS, *EDITS), fault
    arithmetic: Any = emulated
    arithmetic.gemm = multiplied
    named = dict(zip(("tp", "batch", "rearm"), map(int, sizes), strict=True))
    call = cases.build(Case("moe_tail", named, inputs, 0))
    users = (moe_tail,) if fault in EDITS and EDITS[fault][0] is tail_slots else ()
    with simulation.edited(*EDITS[fault], users=users) if fault in EDITS else nullcontext():
        adapter = moe_tail.SpecializedMoeTail()
        return simulation.played(Group(named["tp"], fault), source, adapter, call, emulated.SpecializedMoeTail())


if __name__ == "__main__":
    simulation.main(simulate)
