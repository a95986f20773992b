"""The token embedding's gather by vLLM's own kernels: on all ranks, or on one GPU every rank's in turn.

The all-reduce is the framework's in both paths: over the ranks PyTorch's stands for it, on one GPU it is emulated.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.numerics import measure
from validate.paths.emulated import embedding as emulated
from validate.paths.vllm.adapter import Around, Composed, Group, OverRanks, Prepared, Run
from validate.paths.vllm.entries import PREPARED_EMBEDDING, VOCABULARY, imported, module_of
from validate.paths.vllm.framework import compiled, notes
from validate.paths.vllm.source import Source


class DefaultEmbedding(Composed):
    """``VocabParallelEmbedding.forward`` (vLLM 0.33.0, model_executor/layers/vocab_parallel_embedding.py), every rank's in turn.

    With its compiled operator where vLLM is installed; bare files have the form that masks, gathers and masks.
    """

    def missing(self, call: Call, source: Source) -> str | None:
        """Nothing."""
        return None

    def note(self, call: Call) -> str | None:
        """The all-reduce is the framework's, in both paths."""
        if call.shape["tp"] == 1:
            return None
        native = "vLLM's native form, a deployment takes its compiled operator"
        return notes("all-reduce emulated", None if compiled("vocab_parallel_embedding") else native)

    def compose(self, call: Call, run: Run) -> None:
        """``reference.embedding.reference`` says what the tensors are."""
        _DefaultAround(run)(call)


class _DefaultAround(Around, emulated.DefaultEmbedding):
    def gather(self, ids: Tensor, shard: Tensor, rank: int, vocab: int, out: Tensor) -> None:
        part = Call("embedding", {"rank": rank, "vocab": vocab}, {"ids": ids, "shard": shard}, {}, {}, {"out": out})
        self._run(_Layer(), part)


class _Layer:
    """The layer of one rank, without its all-reduce."""

    step = ("ids",)

    def prepare(self, call: Call, source: Source) -> Prepared:
        ids, shard, out = call.inputs["ids"], call.inputs["shard"], call.outputs["out"]
        vocab, rank = call.shape["vocab"], call.shape["rank"]
        layer = imported(source, VOCABULARY, "VocabParallelEmbedding")
        tp = vocab // len(shard)
        this = SimpleNamespace(
            tp_size=tp,
            use_fused_embedding=compiled("vocab_parallel_embedding"),
            weight=shard,
            shard_indices=layer._get_indices(vocab, vocab, vocab, vocab, rank, tp),
            quant_method=imported(source, VOCABULARY, "UnquantizedEmbeddingMethod")(),
            reduce_results=False,
        )

        def launch() -> None:
            with torch.compiler.set_stance("force_eager"):  # vLLM compiles the masking, which is integers
                out.copy_(layer.forward(this, ids))

        return Prepared(launch)


class EmbeddingOverRanks(OverRanks):
    """``PreparedEmbedding`` on each rank, with its shard of the table."""

    step = ("ids",)

    def missing(self, call: Call, source: Source) -> str | None:
        """The path exists at two sizes."""
        return emulated.SpecializedEmbedding.missing(call)

    def note(self, call: Call) -> str:
        """Which all-reduce is vLLM's own choice, by size and machine."""
        return "gather by vLLM; all-reduce by PyTorch over NCCL"

    def prepare(self, share: Call, source: Source, group: Group) -> Prepared:
        """``reference.embedding.reference`` says what the tensors are."""
        ids, shard, out = share.inputs["ids"], share.inputs["table"], share.outputs["out"]

        def all_reduce(partial: Tensor) -> Tensor:
            torch.distributed.all_reduce(partial, group=group.process_group)
            return partial

        embedding = _prepared(source, shard, group.size * len(shard), group.size, group.rank, all_reduce)
        rows = torch.empty(len(ids), K3.hidden, dtype=out.dtype, device=out.device)

        def launch() -> None:
            rows.fill_(float("nan"))
            embedding.run(ids, rows)
            out.copy_(odd_one(rows, out.shape[-1]))

        return Prepared(launch)


class SpecializedEmbedding(Composed):
    """``PreparedEmbedding`` with a group of one process, whose all-reduce leaves the rank's partial as it is. SM90 and later."""

    def missing(self, call: Call, source: Source) -> str | None:
        """The path exists at two sizes."""
        return emulated.SpecializedEmbedding.missing(call)

    def note(self, call: Call) -> str:
        """The all-reduce is the framework's, in both paths."""
        return "gather by vLLM; all-reduce emulated"

    def compose(self, call: Call, run: Run) -> None:
        """``reference.embedding.reference`` says what the tensors are."""
        _Around(run)(call)


class _Around(Around, emulated.SpecializedEmbedding):
    def gather(self, ids: Tensor, shard: Tensor, rank: int, vocab: int, out: Tensor) -> None:
        partial = torch.full((len(ids), K3.hidden), float("nan"), dtype=out.dtype)
        part = Call("embedding", {"rank": rank, "vocab": vocab}, {"ids": ids, "shard": shard}, {}, {}, {"out": partial})
        self._run(_Gather(), part)
        out.copy_(odd_one(partial, out.shape[1]))


class _Gather:
    step = ("ids",)

    def prepare(self, call: Call, source: Source) -> Prepared:
        i, out = call.inputs, call.outputs["out"]
        prepared = _prepared(source, i["shard"], call.shape["vocab"], 1, call.shape["rank"], lambda partial: partial)
        return Prepared(lambda: prepared.run(i["ids"], out))


def odd_one(rows: Tensor, columns: int) -> Tensor:
    """[rows, columns] of ``rows`` that repeat them: the first repeat that differs from the first of all, else that one.

    The kernel's rows are 7168 wide, those of the case are repeated: a repeat that differs is what is judged.
    """
    repeats = rows.view(len(rows), -1, columns)
    differs = (measure.bits(repeats) != measure.bits(repeats[:, :1])).any(-1)
    return repeats.gather(1, differs.int().argmax(1)[:, None, None].expand(-1, 1, columns))[:, 0]


def _prepared(source: Source, shard: Tensor, vocab: int, tp: int, rank: int, all_reduce: Callable[[Tensor], Tensor]) -> Any:
    """``PreparedEmbedding`` with a group that has what it asks of one: an all-reduce."""
    module = SimpleNamespace(weight=shard.repeat(1, K3.hidden // shard.shape[1]), org_vocab_size=vocab)
    file: Any = source.module(module_of(PREPARED_EMBEDDING))
    file.get_tp_group = lambda: SimpleNamespace(all_reduce=all_reduce)
    return file.PreparedEmbedding(module, tp, rank)
