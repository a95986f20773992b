"""The MoE tail of the specialized path, over all ranks: ``MoeTail`` at small sizes, ``WaveMoeTail`` above."""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.paths.emulated import moe_tail as emulated
from validate.paths.emulated.front import uses_small_batch
from validate.paths.vllm import mailboxes
from validate.paths.vllm.adapter import Group, OverRanks, Prepared
from validate.paths.vllm.entries import PREPARED_ATTN_RES, TAIL, imported
from validate.paths.vllm.source import Source
from validate.paths.vllm.tail_slots import PolledInputs, TailSlots

MOE_LAYERS = K3.layers - 1  # the first layer's MLP is dense
TRIGGER = {8: 3, 16: 2}  # when the small batch's tail lets the next kernel start (moe/small_batch/chain.py)
INPUT_ROWS = 8  # of a slot of what that tail polls (moe/tail_runtime.py POLL_CAP)


class SpecializedMoeTail(OverRanks):
    """``PreparedTail`` as ``PreparedMoE`` (vLLM 0.33.0, specialized_decode/cutedsl/moe/prepared.py) calls it, and the
    next layer's AttnRes, which consumes the output.

    ``MoeTail`` finalizes the routed rows itself; in the small-batch chain it polls them. Above its sizes the experts'
    kernel publishes the finalized rows, for which copies into all ranks' mailboxes stand here, and ``WaveMoeTail`` goes
    on from there. The AttnRes adds the output to a prefix of zeros: that is what is judged.
    """

    step = ("routed", "weights", "shared")

    def missing(self, call: Call, source: Source) -> str | None:
        """Other TP sizes."""
        return emulated.SpecializedMoeTail.missing(call)

    def note(self, call: Call) -> str | None:
        """What the experts' kernel publishes."""
        return "the finalized rows are emulated, and copied to all ranks" if _published(call) else None

    def prepare(self, share: Call, source: Source, group: Group) -> Prepared:
        """``reference.moe_tail.reference`` says what the tensors are."""
        i, s = share.inputs, share.shape
        tp, batch, rearm, device = s["tp"], s["batch"], s["rearm"], i["up"].device
        box = mailboxes.allocated(source, TAIL, "MoeTailBox", group, device)
        # A step's first layer arms as many rows as the largest prepared batch has, the others as many as they have.
        ordinal = 0 if rearm > batch else 1 + batch % 3
        own, old = ordinal % 3, (ordinal - 1) % MOE_LAYERS % 3
        operation = SimpleNamespace(contract=SimpleNamespace(tp_size=tp, rms_eps=i["eps"]), rank=group.rank)
        batches, placement = tuple(sorted({batch, rearm})), (box, ordinal, MOE_LAYERS)
        tail = imported(source, TAIL, "PreparedTail")(operation, i["norm"], i["up"], batches, placement)
        twoshot = batch in imported(source, TAIL, "twoshot_batches")(tp)
        shares = bool(imported(source, TAIL, "shares")(tp, batch, twoshot))
        slots = TailSlots(box, share, group.rank, own, old, twoshot=twoshot, shares=shares)
        boxes: list[TailSlots | PolledInputs] = [slots]
        consumer = _Consumer(source, box.out.buffer, batch, i["eps"])
        routed, weights, shared = i["routed"].flatten(0, 2), i["weights"], i["shared"][0]
        if _published(share):
            ranks = mailboxes.of_all_ranks(box.twoshot.recv if twoshot else box.latent.buffer, group)

            def run() -> None:
                slots.publish(emulated.SpecializedMoeTail().finalize(i["routed"], weights)[0], ranks)
                consumer.clear()
                tail.push(shared)
                tail.run(routed, weights, shared, consumer.out, consume=consumer)

        elif uses_small_batch(tp, batch):
            inputs = PolledInputs(share, INPUT_ROWS, own, old)
            boxes.append(inputs)
            code = imported(source, TAIL, "compile_tail")(tp, batch, device.index, "front_poll", TRIGGER[tp])

            def run() -> None:
                inputs.fill()
                consumer.clear()
                tail.tail_weights.run(box, *inputs.boxes, code, batch)
                consumer(consumer.out)

        else:

            def run() -> None:
                consumer.clear()
                tail.run(routed, weights, shared, consumer.out, consume=consumer)

        def launch() -> None:
            run()
            share.outputs["out"][0].copy_(consumer.prefix)

        def arm() -> None:
            for one in boxes:
                one.arm()

        def collect() -> None:
            for one in boxes:
                one.collect()

        return Prepared(launch, slots.polled(), arm=arm, collect=collect)


class _Consumer:
    """The AttnRes that polls the tail's output mailbox and arms it again: layer 2's, before attention."""

    def __init__(self, source: Source, mailbox: Tensor, rows: int, eps: float) -> None:
        def empty(*shape: int) -> Tensor:
            return torch.empty(shape, dtype=mailbox.dtype, device=mailbox.device)

        ones = torch.ones_like(empty(K3.hidden))
        key = (1, True, -1, False)  # one saved block, adds to the prefix, saves none, not the final one
        self._attn_res: Any = imported(source, PREPARED_ATTN_RES, "PreparedAttnRes")((ones, ones, ones), key, (eps, eps))
        self._attn_res.bind_ring(mailbox)
        self._blocks = torch.ones_like(empty(rows, K3.attn_res_blocks, K3.hidden))
        self.prefix, self.out = empty(rows, K3.hidden), empty(rows, K3.hidden)

    def clear(self) -> None:
        """Zeros the prefix. The AttnRes reads it before it waits for what precedes it, so its writer must not be the last."""
        self.prefix.zero_()
        self.out.fill_(torch.nan)

    def __call__(self, out: Tensor) -> Tensor:
        """Runs it; ``prefix`` then holds the tail's output."""
        return self._attn_res.run_ring(self.prefix, self._blocks, out)


def _published(call: Call) -> bool:
    return call.shape["batch"] > emulated.ONE_KERNEL[call.shape["tp"]]
