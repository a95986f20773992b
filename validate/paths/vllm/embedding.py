"""The token embedding's gather by the specialized path's own kernel, every rank's in turn; the all-reduce is emulated."""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.numerics import measure
from validate.paths.emulated import embedding as emulated
from validate.paths.vllm.adapter import Around, Composed, Prepared, Run
from validate.paths.vllm.entries import PREPARED_EMBEDDING, module_of
from validate.paths.vllm.source import Source


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
        # The kernel's rows are 7168 wide, those of the case are repeated: a repeat that differs is what is judged.
        repeats = partial.view(len(ids), -1, out.shape[1]).unbind(1)
        out.copy_(repeats[0])
        for repeat in repeats[1:]:
            out.copy_(torch.where(measure.bits(repeat) != measure.bits(repeats[0]), repeat, out))


class _Gather:
    step = ("ids",)

    def prepare(self, call: Call, source: Source) -> Prepared:
        i, out = call.inputs, call.outputs["out"]
        weight = i["shard"].repeat(1, K3.hidden // i["shard"].shape[1])
        module = SimpleNamespace(weight=weight, org_vocab_size=call.shape["vocab"])
        file: Any = source.module(module_of(PREPARED_EMBEDDING))
        file.get_tp_group = lambda: SimpleNamespace(all_reduce=lambda partial: partial)  # this process alone
        prepared = file.PreparedEmbedding(module, 1, call.shape["rank"])
        return Prepared(lambda: prepared.run(i["ids"], out))
