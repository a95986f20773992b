"""The router of the default path: vLLM's fp32 logits; the choice is emulated."""

from types import SimpleNamespace

import torch
from torch import Tensor

from validate.model.call import Call
from validate.paths.emulated import router as emulated
from validate.paths.vllm.adapter import Around, Composed, Prepared, Run
from validate.paths.vllm.entries import GATE, imported
from validate.paths.vllm.framework import cute_available, notes, stored
from validate.paths.vllm.source import Source


class DefaultRouter(Composed):
    """``GateLinear.forward`` with the flags that its constructor sets for a bf16 gate with fp32 logits on SM90 and SM100.

    Up to 16 rows ``ll_bf16_gemm``, in CuTe DSL, above cuBLAS with an fp32 result (vLLM 0.33.0,
    model_executor/layers/fused_moe/router/gate_linear.py). On SM100 the trtllm-gen MoE kernel chooses, inside; elsewhere the
    compiled ``grouped_topk`` (grouped_topk_router.py).
    """

    def missing(self, call: Call, source: Source) -> str | None:
        """On a CPU: there the layer itself would round its logits to bf16."""
        return "its GEMMs with fp32 results need a GPU" if source.interpreted else None

    def note(self, call: Call) -> str | None:
        """What makes the choice is compiled."""
        small = call.shape["batch"] <= 16 and not cute_available()
        return notes(
            "logits by vLLM; choice and weights, compiled, are emulated",
            "logits by cuBLAS: vLLM's CuTe GEMM takes quack-kernels" if small else None,
        )

    def compose(self, call: Call, run: Run) -> None:
        """``reference.router.reference`` says what the tensors are. All ranks run the same kernel on the same tensors."""
        _Around(run)(call)


class _Around(Around, emulated.DefaultRouter):
    def logits(self, x: Tensor, gate: Tensor) -> Tensor:
        logits = torch.full((len(x), len(gate)), float("nan"))
        self._run(_Gate(), Call("router", {}, {"x": x, "gate": gate}, {}, {}, {"logits": logits}))
        return logits


class _Gate:
    step = ("x",)

    def prepare(self, call: Call, source: Source) -> Prepared:
        x, logits = call.inputs["x"], call.outputs["logits"]
        gate = imported(source, GATE, "GateLinear")
        this = SimpleNamespace(
            weight=call.inputs["gate"],
            allow_ll_bf16_gemm=cute_available(),
            LL_BF16_MAX_TOKENS=gate.LL_BF16_MAX_TOKENS,
            allow_rocm_bf16x3_router_gemm=False,
            allow_fp32_router_gemm=False,
            allow_ll_fp32w_gemm=False,
            allow_bf16x3_router_gemm=False,
            allow_cublas_router_gemm=True,
            is_gfx950=False,
            _return=lambda output: output,
        )
        return stored(logits, lambda: gate.forward(this, x))
