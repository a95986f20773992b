"""The token embedding as each path computes it, all ranks."""

import torch
from torch import Tensor

from validate.model.call import Call
from validate.paths.emulated.arithmetic import chain_sum

BF16 = torch.bfloat16


class DefaultEmbedding:
    """vLLM 0.33.0, model_executor/layers/vocab_parallel_embedding.py: gather, mask, all-reduce."""

    def __call__(self, call: Call) -> None:
        """Runs the stage; ``reference.embedding.reference`` says what the tensors are."""
        ids, table, tp = call.inputs["ids"], call.inputs["table"], call.shape["tp"]
        shard = len(table) // tp
        out = call.outputs["out"]
        for rank in range(tp):
            self.gather(ids, table[rank * shard : (rank + 1) * shard], rank, len(table), out[rank])
        if tp > 1:
            out.copy_(self.all_reduce(out))

    def gather(self, ids: Tensor, shard: Tensor, rank: int, vocab: int, out: Tensor) -> None:
        """Fills one rank's partial [rows, columns]: rows of its shard, zeros for ids of the others."""
        row = ids.long() - self.start(rank, len(shard))
        out.copy_(shard[row.clamp(0, len(shard) - 1)])
        out[~self.owns(ids.long(), row, len(shard), vocab)] = 0.0

    def start(self, rank: int, rows: int) -> int:
        """The first id of a rank's shard."""
        return rank * rows

    def owns(self, ids: Tensor, row: Tensor, rows: int, vocab: int) -> Tensor:
        """Which ids lie in the shard."""
        return (row >= 0) & (row < rows)

    def all_reduce(self, partial: Tensor) -> Tensor:
        """bf16 sum over ranks, in fp32 and in their order."""
        return chain_sum(partial.float()).to(BF16)


class SpecializedEmbedding(DefaultEmbedding):
    """``EmbeddingGather`` (vLLM 0.33.0, specialized_decode/cutedsl/common/embedding.py), then the same all-reduce.

    Each block copies 1024 columns of a row, or stores zeros.
    """

    @staticmethod
    def missing(call: Call) -> str | None:
        """The path exists at two sizes."""
        return None if call.shape["tp"] in (8, 16) else "the specialized path needs 8 or 16 ranks"

    def gather(self, ids: Tensor, shard: Tensor, rank: int, vocab: int, out: Tensor) -> None:
        """Fills one rank's partial [rows, columns]."""
        row = ids.long() - self.start(rank, len(shard))
        mine = self.owns(ids.long(), row, len(shard), vocab)
        out[~mine] = 0.0
        out[mine] = shard[row[mine]]

    def owns(self, ids: Tensor, row: Tensor, rows: int, vocab: int) -> Tensor:
        """Which ids lie in the vocabulary and in the shard."""
        return (ids >= 0) & (ids < vocab) & super().owns(ids, row, rows, vocab)
