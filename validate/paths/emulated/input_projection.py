"""The fused input projection of an attention layer as each path computes it, one rank."""

import torch
from torch import Tensor

from validate.model.call import Call
from validate.paths.emulated import skinny
from validate.paths.emulated.arithmetic import chain_sum, gemm

BF16 = torch.bfloat16
# Threads a block of the skinny GEMM by rows (providers.py ``SkinnyProjection``).
SKINNY_THREADS = {1: 128, 2: 64}
KDA_ROWS_TP8 = 6288


def k_splits(rows: int, tp: int, regime: int) -> int:
    """Parts of K, one for each thread block of a cluster (``projection_policies`` of runtime/providers.py)."""
    bin_ = next(size for size in (8, 16, 32, 64) if regime <= size)
    if rows == KDA_ROWS_TP8 and (tp == 8 or bin_ > 8):
        return 1 if bin_ == 64 else 2
    return 4 if bin_ == 8 else 2


class DefaultInputProjection:
    """One bf16 linear layer with fp32 accumulation (vLLM 0.33.0, models/kimi_k3/nvidia/kda.py, mla.py).

    Small batches take other kernels, each of which sums in fp32, too, and rounds once (low_latency_gemm.py).
    """

    def __call__(self, call: Call) -> None:
        """Runs the stage; ``reference.input_projection.reference`` says what the tensors are."""
        self.tp, self.regime = call.shape["tp"], call.shape["regime"]
        self.store(call.outputs["projected"], self.product(call.inputs["x"], call.inputs["weight"]))

    def product(self, x: Tensor, weight: Tensor) -> Tensor:
        """fp32 [rows, n]."""
        return gemm(x, weight)

    def store(self, projected: Tensor, product: Tensor) -> None:
        """Rounds once."""
        projected.copy_(product.to(BF16))


class SpecializedInputProjection(DefaultInputProjection):
    """A skinny GEMM at one and two rows, else split-K on tensor cores.

    vLLM 0.33.0: specialized_decode/runtime/providers.py (``SkinnyProjection``, ``projection_policies``), the GEMMs in
    cutedsl/gemm/{projection,splitk}.py.
    """

    @staticmethod
    def missing(call: Call) -> str | None:
        """The path exists at two sizes."""
        return None if call.shape["tp"] in (8, 16) else "the specialized path needs 8 or 16 ranks"

    def product(self, x: Tensor, weight: Tensor) -> Tensor:
        """fp32 [rows, n] by the kernel of the regime."""
        if self.regime in SKINNY_THREADS:
            threads = SKINNY_THREADS[self.regime]
            tiles = self.tiles(x.shape[1] // (threads * skinny.VECTOR))
            return self.warps(skinny.thread_sums(x, weight, threads, tiles))
        splits = k_splits(weight.shape[0], self.tp, self.regime)
        parts = [gemm(a, b) for a, b in zip(x.chunk(splits, 1), weight.chunk(splits, 1), strict=True)]
        return self.reduce(torch.stack([self.publish(part) for part in parts]))

    def tiles(self, count: int) -> list[int]:
        """K tiles in their order."""
        return list(range(count))

    def warps(self, partial: Tensor) -> Tensor:
        """fp32 [rows, n] from threads' sums [rows, n, warps, lanes]."""
        return skinny.block_sums(partial)

    def publish(self, part: Tensor) -> Tensor:
        """A part as it passes from its thread block to the cluster's owner."""
        return part

    def reduce(self, parts: Tensor) -> Tensor:
        """Parts [splits, rows, n] added in the order of the cluster's ranks; the owner's own is the first."""
        return chain_sum(parts)
