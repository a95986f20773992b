"""The output projection of the default path: a linear layer on every rank, in turn on one GPU."""

import torch
from torch import Tensor

from validate.model.call import Call
from validate.paths.emulated import o_proj as emulated
from validate.paths.vllm.adapter import Around, Composed, Prepared, Run
from validate.paths.vllm.framework import linear, linear_note, notes
from validate.paths.vllm.source import Source


class DefaultOproj(Composed):
    """``o_proj`` of models/kimi_k3/nvidia/kda.py and mla.py (vLLM 0.33.0), a row-parallel layer.

    Its all-reduce is the framework's choice by size and machine, and AttnRes adds the residual; from 128 rows on vLLM fuses
    GEMM and all-reduce (VLLM_KIMI_K3_GEMM_AR, kernels/linear/cute_dsl/gemm_rs_ar.py ``should_run``).
    """

    def missing(self, call: Call, source: Source) -> str | None:
        """Nothing."""
        return None

    def note(self, call: Call) -> str | None:
        """The rest of the stage."""
        return notes("all-reduce and residual emulated", linear_note(call.shape["regime"]))

    def compose(self, call: Call, run: Run) -> None:
        """``reference.o_proj.reference`` says what the tensors are."""
        _Around(run)(call)


class _Around(Around, emulated.DefaultOproj):
    def partials(self, local: Tensor, weight: Tensor, call: Call) -> Tensor:
        tp = call.shape["tp"]
        partial = torch.full((tp, len(local) // tp, len(weight)), float("nan"), dtype=torch.bfloat16)
        self._run(_Ranks(), Call("o_proj", call.shape, {"local": local, "weight": weight}, {}, {}, {"partial": partial}))
        return partial


class _Ranks:
    """Every rank's linear layer. All have the same shard in the case."""

    step = ("local",)

    def prepare(self, call: Call, source: Source) -> Prepared:
        local, weight, partial = call.inputs["local"], call.inputs["weight"], call.outputs["partial"]

        def launch() -> None:
            for rank, x in enumerate(local.chunk(len(partial))):
                partial[rank].copy_(linear(source, x, weight))

        return Prepared(launch)
