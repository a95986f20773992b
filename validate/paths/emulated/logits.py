"""Logits and the greedy token as each path computes them, all ranks."""

import torch
from torch import Tensor

from validate.model.call import Call
from validate.paths.emulated import skinny
from validate.paths.emulated.arithmetic import gemm

BF16 = torch.bfloat16
# Threads a block of the skinny GEMM by rows (low_latency_gemm.py ``KIMI_K3_PROJECTIONS``, the lm_head entries); else
# cuBLAS.
SKINNY_THREADS = {8: {1: 224, 2: 64, 3: 64, 4: 64}, 16: {1: 224, 2: 32, 3: 64, 4: 64}}


class DefaultLogits:
    """``LogitsProcessor`` (vLLM 0.33.0, model_executor/layers/logits_processor.py) and greedy sampling
    (v1/sample/sampler.py).

    Each rank multiplies its shard of the head and rounds to bf16; the shards are gathered in the order of the ranks,
    and the token is the first largest entry.
    """

    def __call__(self, call: Call) -> None:
        """Runs the stage; ``reference.logits.reference`` says what the tensors are."""
        tp = call.shape["tp"]
        x = self.hidden(call.inputs["x"])
        shards = [self.shard(x, part, rank, tp) for rank, part in enumerate(call.inputs["head"].chunk(tp))]
        for rank in range(tp):
            logits = self.gather(shards, rank)
            call.outputs["logits"][rank] = self.rounded(logits)
            call.outputs["token"][rank, :, 0] = self.token(logits, rank, tp)

    def hidden(self, x: Tensor) -> Tensor:
        """bf16 [rows, hidden]: the normalised rows."""
        return x

    def shard(self, x: Tensor, head: Tensor, rank: int, tp: int) -> Tensor:
        """fp32 [rows, vocab / tp]: one rank's products."""
        threads = SKINNY_THREADS.get(tp, {}).get(len(x))
        if threads is None:
            return gemm(x, head)
        tiles = range(x.shape[1] // (threads * skinny.VECTOR))
        return skinny.block_sums(skinny.thread_sums(x, head, threads, tiles))

    def gather(self, shards: list[Tensor], rank: int) -> Tensor:
        """[rows, vocab]: what ``rank`` receives."""
        return torch.cat(shards, 1)

    def rounded(self, logits: Tensor) -> Tensor:
        """bf16 logits."""
        return logits.to(BF16)

    def token(self, logits: Tensor, rank: int, tp: int) -> Tensor:
        """int64 [rows]: the first of the largest logits."""
        return self.first_largest(self.rounded(logits).float())

    def first_largest(self, values: Tensor) -> Tensor:
        """int64 [rows]: the lowest index among equal ones."""
        return (values == values.amax(1, keepdim=True)).int().argmax(1)


class SpecializedLogits(DefaultLogits):
    """The same head and sampler: the specialized path ends with the normalised rows (runtime/decode.py ``run``)."""

    @staticmethod
    def missing(call: Call) -> str | None:
        """The path exists at two sizes."""
        return None if call.shape["tp"] in (8, 16) else "the specialized path needs 8 or 16 ranks"
