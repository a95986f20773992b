"""Tail of the latent MoE as each path computes it, all ranks."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from validate.model.call import Call
from validate.paths.emulated.arithmetic import chain_sum, fma, gemm, tree_sum
from validate.paths.emulated.mailbox import arm, fold, poll

BF16 = torch.bfloat16
# Rows up to which one kernel does the whole tail (moe/tail_runtime.py ``published``); above, the experts publish the
# latent.
ONE_KERNEL = {8: 4, 16: 8}


class DefaultMoeTail:
    """vLLM's fused tail for decode sizes (0.33.0, models/kimi_k3/nvidia/ops/latent_moe_tail.py): a collective, then a
    GEMM.

    The collective finalizes the routed rows, adds up the ranks in fp32 in their order, normalises and reduce-scatters
    the shared experts; every rank's GEMM adds its columns' shared sum and multicasts them. Its Lamport workspaces are
    three in turn, too: a launch clears what the one before used (allreduce_rmsnorm_reduce_scatter_early_exit.py).
    """

    def __call__(self, call: Call) -> None:
        """Runs the stage; ``reference.moe_tail.reference`` says what the tensors are."""
        i = call.inputs
        partial = self.finalize(i["routed"], i["weights"])
        latents, shared = self.exchange(partial, i["shared"], call)
        latent = self.rank_sum(latents).to(BF16)
        normed = self.normalise(latent, i)
        up = self.up(normed, i["up"], call)
        out = self.combine(up, self.rank_sum(shared).to(BF16))
        call.outputs["out"].copy_(self.publish(out).expand(call.outputs["out"].shape))

    def finalize(self, routed: Tensor, weights: Tensor) -> Tensor:
        """bf16 [ranks, rows, latent]: the weighted sum of the routed rows, slot by slot."""
        total = torch.zeros(routed.shape[0], routed.shape[1], routed.shape[3], device=routed.device)
        for slot in range(routed.shape[2]):
            total = fma(routed[:, :, slot], weights[:, slot, None], total)
        return fold(total.to(BF16))

    def exchange(self, partial: Tensor, shared: Tensor, call: Call) -> tuple[Tensor, Tensor]:
        """fp32 latent partials and shared rows as they come through mailboxes; arms those of the layer before."""
        rows, b = partial.shape[1], call.buffers
        b["latent"][:, :rows] = partial
        b["shared_box"][:, :rows] = self.canonical(shared)
        for name in ("latent_old", "shared_old"):
            for slots in b[name]:
                self.rearm(slots, self.rearm_rows(call))
        latent = self.box(b["latent"], b["latent_old"])
        return self.payload(latent[:, :rows]), self.payload(b["shared_box"][:, :rows])

    def canonical(self, shared: Tensor) -> Tensor:
        """Shared rows without the sentinel."""
        return fold(shared)

    def box(self, current: Tensor, old: Tensor) -> Tensor:
        """The latent mailbox that is read: this layer's, not the one of the layer before."""
        return current

    def rearm_rows(self, call: Call) -> int:
        """Rows of the previous layer: this batch's, or at the first layer the most that a step may have used."""
        return call.shape["rearm"]

    def rearm(self, slots: Tensor, rows: int) -> None:
        """Arms the first rows of [slots, width]."""
        arm(slots[:rows])

    def payload(self, slots: Tensor) -> Tensor:
        """fp32 contents of published slots."""
        return poll(slots)

    def rank_sum(self, received: Tensor) -> Tensor:
        """fp32 [rows, width]: the ranks' parts added up in their order."""
        return chain_sum(received)

    def normalise(self, latent: Tensor, i: Mapping[str, Any]) -> Tensor:
        """bf16 [rows, latent]: RMSNorm; squares are rounded to bf16 first."""
        mean = self.square_sum(latent) / latent.shape[-1]
        inverse = torch.rsqrt(mean + i["eps"])
        return (latent.float() * inverse[..., None] * i["norm"].float()).to(BF16)

    def square_sum(self, latent: Tensor) -> Tensor:
        """fp32 [rows]: eight neighbours in order, 32 threads by a butterfly, then the warps in order."""
        eights = self.square(latent).unflatten(-1, (-1, 8))
        threads = chain_sum(eights.movedim(-1, 0))
        warps = tree_sum(threads.unflatten(-1, (-1, 32)))
        return chain_sum(warps.movedim(-1, 0))

    def square(self, latent: Tensor) -> Tensor:
        """fp32 squares, rounded to bf16."""
        return (latent * latent).float()

    def up(self, normed: Tensor, weight: Tensor, call: Call) -> Tensor:
        """fp32 [rows, hidden]: all ranks' columns."""
        return gemm(normed, weight)

    def combine(self, up: Tensor, shared: Tensor) -> Tensor:
        """bf16 [rows, hidden]: both branches, each rounded before."""
        return (up.to(BF16).float() + shared.float()).to(BF16)

    def publish(self, out: Tensor) -> Tensor:
        """What the multicast into the next layer's mailbox carries."""
        return fold(out)


class SpecializedMoeTail(DefaultMoeTail):
    """``MoeTail`` up to 4 (TP8) or 8 (TP16) rows, ``WaveMoeTail`` above (vLLM 0.33.0,
    specialized_decode/cutedsl/moe/tail.py).

    K of the up projection is split over 7, 8 or 16
    thread blocks, whose partials are added in order.
    """

    @staticmethod
    def missing(call: Call) -> str | None:
        """The kernels exist at two sizes."""
        return None if call.shape["tp"] in ONE_KERNEL else "the specialized path needs 8 or 16 ranks"

    def square_sum(self, latent: Tensor) -> Tensor:
        """fp32 [rows]: eight neighbours in order, the threads of a slice by a butterfly, then the slices in order."""
        threads = chain_sum(self.square(latent).unflatten(-1, (-1, 8)).movedim(-1, 0)).unflatten(-1, (self.slices, -1))
        padding = (1 << (threads.shape[-1] - 1).bit_length()) - threads.shape[-1]
        slices = tree_sum(torch.nn.functional.pad(threads, (0, padding)))
        return chain_sum(slices.movedim(-1, 0))

    def __call__(self, call: Call) -> None:
        """Runs the stage in the regime of the call."""
        tp, regime = call.shape["tp"], call.shape["batch"]
        self.slices = 16 if regime > ONE_KERNEL[tp] else 7 if tp == 8 else 8
        super().__call__(call)

    def up(self, normed: Tensor, weight: Tensor, call: Call) -> Tensor:
        """fp32 [rows, hidden]: a partial for each slice of K, added in order."""
        width = weight.shape[1] // self.slices
        parts = [gemm(normed[:, c : c + width], weight[:, c : c + width]) for c in self.starts(width)]
        return chain_sum(torch.stack(parts))

    def starts(self, width: int) -> list[int]:
        """First columns of the slices."""
        return list(range(0, width * self.slices, width))
