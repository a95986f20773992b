"""The shared experts' activation by the specialized path's own kernel; their projections, by tcgen05, are emulated."""

import torch
from torch import Tensor

from validate.model.call import Call
from validate.paths.emulated import shared_experts as emulated
from validate.paths.emulated.front import uses_small_batch
from validate.paths.vllm import route_situ
from validate.paths.vllm.adapter import Around, Composed, Prepared, Run, other_rows
from validate.paths.vllm.source import Source


class SpecializedSharedExperts(Composed):
    """``RouteSitu`` in its third role: from the small batches to 8 rows. SM90 and later."""

    def missing(self, call: Call, source: Source) -> str | None:
        """Small batches and more than 8 rows, whose kernels hold the activation and both products."""
        tp, rows = call.shape["tp"], call.shape["batch"]
        reason = emulated.SpecializedSharedExperts.missing(call) or other_rows(call)
        if reason is None and (rows > 8 or uses_small_batch(tp, rows)):
            reason = "no adapter yet for its kernels that hold the products, too, which need SM100"
        return reason

    def note(self, call: Call) -> str:
        """Its GEMMs need SM100."""
        return "activation by vLLM; projections emulated"

    def compose(self, call: Call, run: Run) -> None:
        """``reference.shared_experts.reference`` says what the tensors are."""
        _Around(run)(call)


class _Around(Around, emulated.SpecializedSharedExperts):
    def activate(self, gate: Tensor, up: Tensor, beta: float, linear_beta: float) -> Tensor:
        hidden = torch.full(gate.shape, float("nan"), dtype=torch.bfloat16)
        inputs = {"gate_up": torch.cat([gate, up], 1), "beta": beta, "linear_beta": linear_beta}
        self._run(_Activation(), Call("shared_experts", {"batch": len(gate)}, inputs, {}, {}, {"hidden": hidden}))
        return hidden.float()


class _Activation:
    """``RouteSitu`` as ``SharedFront.shared_expert`` of moe/front.py calls it, its other roles' tensors unused."""

    step = ("gate_up",)

    def prepare(self, call: Call, source: Source) -> Prepared:
        i, hidden = call.inputs, call.outputs["hidden"]
        rows, width = hidden.shape
        scalars = (1.0, i["beta"], i["linear_beta"])
        used = {"gate_up": i["gate_up"], "hidden": hidden}
        return Prepared(route_situ.bound(source, (False, False, True), rows, width, scalars, used))
