"""One launch's slots in a rank's MoE tail mailboxes (vLLM 0.33.0, specialized_decode/cutedsl/moe/tail_runtime.py).

``MoeTailBox`` has for each of three layers in turn, [3, ranks, 64, ...] bf16: all ranks' latent partials, their shared rows'
columns of this rank, and in the two-shot sizes their latent partials' columns of this rank; and the sums of the latent,
[3, 64, ...]. A launch reads one third, and arms the third of the layer before. Its outputs come in one further slot.
"""

from typing import Any

import torch
from torch import Tensor

from validate.model.call import Call
from validate.paths.emulated.mailbox import arm
from validate.paths.vllm.device import store
from validate.paths.vllm.mailboxes import check_armed

CAPACITY = 64  # rows of a slot


class TailSlots:
    """The slots of a layer: ``own`` is its third of the mailboxes, ``old`` that of the layer before.

    ``twoshot``: whether the latent is all-reduced by the owners of its columns; ``shares``: whether the kernel keeps its
    sums. A call's mailboxes are this rank's columns of the real ones.
    """

    def __init__(self, box: Any, share: Call, rank: int, own: int, old: int, *, twoshot: bool, shares: bool) -> None:
        self._share, self._rank, self._own, self._old = share, rank, own, old
        self._twoshot, self._out = twoshot, box.out.buffer
        self._latent = box.twoshot.recv if twoshot else box.latent.buffer
        self._layered = [self._latent, box.rs.buffer]
        if shares:
            self._layered.append(box.twoshot.gather if twoshot else box.reduced)
        every = (self._out, box.latent.buffer, box.rs.buffer, box.reduced, box.twoshot.recv, box.twoshot.gather)
        self._idle = [one for one in every if all(one is not used for used in self._layered)]
        width = share.buffers["latent"].shape[2]
        mine = self._latent if twoshot else self._latent.narrow(3, rank * width, width)
        self._judged = {
            "latent": mine[own],
            "latent_old": mine[old],
            "shared_box": box.rs.buffer[own],
            "shared_old": box.rs.buffer[old],
        }
        self._rows = min(CAPACITY, share.buffers["latent"].shape[1])  # of a slot and of the call's, which may have more
        self._before = {name: share.buffers[name][:, : self._rows].clone() for name in ("latent_old", "shared_old")}

    def polled(self) -> tuple[Tensor, ...]:
        """What the launch waits for, [slots, rows, width] each."""
        rows = self._share.shape["batch"]
        own = [box[self._own].view(-1, *box.shape[-2:])[:, :rows] for box in self._layered]
        return *own, self._out[:, :rows]

    def publish(self, partial: Tensor, ranks: list[Tensor]) -> None:
        """Copies this rank's latent partial [rows, latent] where the experts' kernel publishes it.

        ``ranks``: each rank's latent mailbox, or its receive slots of the two-shot sizes.
        """
        rows = len(partial)
        parts = [partial] * len(ranks)
        if self._twoshot:
            parts = list(partial.view(rows, len(ranks), -1).transpose(0, 1).contiguous())
        for box, part in zip(ranks, parts, strict=True):
            store(box[self._own, self._rank, :rows], part)

    def arm(self) -> None:
        """As a step finds the mailboxes: armed, but for the rows of the layer before."""
        arm(*self._idle, *self._layered)
        for box in self._layered:
            box[self._old, ..., : self._share.shape["rearm"], :] = 1.0
        for name, rows in self._before.items():
            self._judged[name][:, : self._rows] = rows

    def collect(self) -> None:
        """Copies into the call what is judged; Broken if anything but this layer's slots is not armed."""
        for name, slots in self._judged.items():
            self._share.buffers[name][:, : self._rows] = slots[:, : self._rows]
        others = [box[third] for box in self._layered for third in range(3) if third != self._own]
        check_armed("the tail's mailboxes", *self._idle, *others)


class PolledInputs:
    """What the tail of the small batches polls, three layers in turn: routed rows, their weights, shared rows.

    Armed with NaN of all ones (moe/small_batch/chain.py ``SmallBatchBox``); a slot has ``capacity`` rows.
    """

    def __init__(self, share: Call, capacity: int, own: int, old: int) -> None:
        i = share.inputs
        self._given = i["routed"][0].flatten(0, 1), i["weights"], i["shared"][0]
        self._own, self._old, self._rearm = own, old, min(share.shape["rearm"], capacity)
        like = i["weights"]
        self.boxes = tuple(like.new_empty(3, capacity * len(rows) // len(like), rows.shape[1]) for rows in self._given)

    def arm(self) -> None:
        """All, but for the rows of the layer before."""
        for box, rows in zip(self.boxes, self._given, strict=True):
            box.view(torch.int32).fill_(-1)
            box[self._old, : self._rearm * len(rows) // len(self._given[1])] = 1.0

    def fill(self) -> None:
        """As the kernels before leave them."""
        for box, rows in zip(self.boxes, self._given, strict=True):
            box[self._own, : len(rows)].copy_(rows)

    def collect(self) -> None:
        """Broken if the other layers' are not armed."""
        others = [box[third] for box in self.boxes for third in range(3) if third != self._own]
        check_armed("the small batch's inputs", *others, sentinel=-1)
