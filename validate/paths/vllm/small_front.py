"""The MoE front of small batches: one kernel of vLLM's moe/small_batch (0.33.0), ``MoeFrontTP8`` or ``MoeFrontTP16``.

It polls for the row that the o-projection's consumer publishes, computes all logits on every rank, routes, and multicasts
the rank's columns of the latent. At TP 8 it gathers the latent, too; at TP 16 the experts' kernel polls for it, and the
shared experts are part of this kernel. They are computed here from zeros.
"""

from typing import Any

import torch
from torch import Tensor

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.paths import Broken
from validate.paths.emulated.mailbox import SENTINEL
from validate.paths.vllm import binding
from validate.paths.vllm.adapter import Group
from validate.paths.vllm.entries import CHAIN, imported
from validate.paths.vllm.front import UNWRITTEN, Layer, fill, padded_rows, words
from validate.paths.vllm.mailboxes import check_armed
from validate.paths.vllm.source import Source

# The model's fourth layer, its third with experts: the second of two parities, the last of three slots.
PARITY, BEFORE, SLOT = 1, 0, 2
HINTS = 28  # that the o-projection's consumer publishes for a row: one each of 4 warps of 7 blocks (oproj/consumer.py)
WORDS = 32  # of the epoch that one parity's hint has to itself; after the hints, at TP 16, the counters of the placement
USED = 1  # a word that no part is armed with


class SmallFront:
    """``front.Front`` as ``SmallBatchChain`` of moe/small_batch/chain.py binds its first kernel.

    A step alternates between two parities: a layer's kernel arms the other one's parts, which the layer before has used.
    """

    def __init__(self, call: Call, source: Source, group: Group, layer: Layer) -> None:
        self._rows, tp = call.shape["regime"], group.size
        owner = group.process_group, layer.gate.device, tp, group.rank
        self._box = imported(source, CHAIN, "SmallBatchBox")(*owner)
        self._x, self._given = padded_rows(call), call.inputs["x"]
        box, rows = self._box, self._rows
        self._row = box.xmoe[PARITY, 0, :rows]
        self._hint = box.hint_views[PARITY][:1]
        self._scores, self._ids, self._hg = box.scratch[rows] if tp == 16 else (box.scores, box.ids, box.hg)
        self._bind(source, group, layer)
        self.ids, self.weights = self._ids.view(rows, K3.top_k), box.w[SLOT, :rows]
        self._gathered = tp == 8
        self._shards = box.h2.buffer[PARITY, :rows]
        self.latent = box.latent.view(rows, K3.latent) if self._gathered else self._shards
        self.mailboxes: tuple[Tensor, ...] = (box.xmoe[PARITY, :, :rows],)
        if self._gathered:
            self.mailboxes += (box.h2.buffer[PARITY, None, :rows],)

    def launch(self) -> None:
        """What the o-projection's consumer does for this kernel, and the kernel."""
        self._x[: len(self._given)].copy_(self._given)
        torch.add(self._x, 0.0, out=self._row)  # as it is published: -0, half of the sentinel, as +0
        self._hint.add_(HINTS * self._rows)
        self._code(*self._operands, *self._scalars, self._stream(self._x.device))

    def arm(self) -> None:
        """Armed for this layer; the other parity as the layer before leaves it."""
        box = self._box
        fill([(box.xmoe, SENTINEL), (box.epoch, 0), (self._scores, SENTINEL), (self._hg, 0), (box.h2.buffer, SENTINEL)])
        fill((tensor, UNWRITTEN) for tensor in (self.ids, box.w, box.s, box.latent))
        fill((area, USED) for _, area, _ in self._others())

    def collect(self) -> None:
        """The kernel arms the other parity, and at TP 8 what it has gathered."""
        for name, area, word in self._others():
            check_armed(name, area, sentinel=word)
        if self._gathered:
            check_armed("the latent's mailbox", self._box.h2.buffer)
            return
        missing = int((words(self._shards) == SENTINEL).sum())
        if missing:
            raise Broken("latent", "complete", missing, f"{missing} words of the latent have not come")

    def _others(self) -> list[tuple[str, Tensor, int]]:
        box, rows = self._box, self._rows
        areas = [
            ("the other parity's row", box.xmoe[BEFORE], SENTINEL),
            ("the other parity's scores", self._scores.view(2, -1)[BEFORE], SENTINEL),
            ("the other parity's gate and up", self._hg.view(2, -1)[BEFORE], 0),
            ("the other parity's hint", box.hint_views[BEFORE][:1], 0),
        ]
        if not self._gathered:
            # Counters of the placement: 3 for one row, for two another 5 words of a mask (front_tp16.py FrontPlacement).
            start, count = (2 + BEFORE) * WORDS + (0 if rows == 1 else 8), 3 if rows == 1 else 8
            areas.append(("the other parity's placement", box.epoch[start : start + count], 0))
            areas.append(("the other parity's latent", box.h2.buffer[BEFORE, :rows], SENTINEL))
        return areas

    def _bind(self, source: Source, group: Group, layer: Layer) -> None:
        box, rows, tp, c = self._box, self._rows, group.size, binding.cutlass()
        launch, u32 = (imported(source, CHAIN, name) for name in ("_launch", "u32"))
        shard, width = K3.latent // tp, K3.shared_intermediate // tp
        down = layer.down.narrow(0, group.rank * shard, shard)
        gate_up = layer.gate.new_zeros(2 * width, K3.hidden)
        kind: str
        tail: tuple[Any, ...]
        options: tuple[int, ...]
        if tp == 8:
            kind, tail, options, spared = "front", (box.latent, gate_up, u32(self._hg)), (), 8
        else:
            shared_down = layer.gate.new_zeros(K3.hidden, width)
            kind, tail = "front16", (gate_up, u32(self._hg), shared_down, box.s, box.designated)
            options, spared = (rows,), 7 * rows
        head = layer.gate, layer.bias, box.xmoe, u32(box.epoch), u32(self._scores), self._ids
        self._held = *head, box.w, down, box.h2.buffer, *tail
        self._code, self._operands = launch(kind, self._held, *options, grid=box.sms - spared, renorm=True)
        self._scalars: tuple[Any, ...] = (c.Int32(PARITY), c.Int32(SLOT), c.Int32(box.rank), c.Uint64(box.h2.mc))
        self._scalars += (c.Float32(layer.scaling),)
        if tp == 16:
            beta, linear = K3.situ_beta, K3.situ_linear_beta
            self._scalars += (c.Float32(beta), c.Float32(1 / beta), c.Float32(linear), c.Float64(1 / linear))
        self._stream = binding.host(source).stream
