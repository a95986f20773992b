"""The shared experts' activation by the specialized path's own kernel; their projections, by tcgen05, are emulated."""

import importlib

import torch
from torch import Tensor

from validate.model.call import Call
from validate.paths.emulated import shared_experts as emulated
from validate.paths.emulated.front import uses_small_batch
from validate.paths.vllm.adapter import Needs, Prepared, Run
from validate.paths.vllm.entries import FRONT, HOST, imported, module_of
from validate.paths.vllm.source import Source

MAILBOX = (1, 64, 3584 + 2 * 896)  # of the kernel's other roles (moe/front.py WIDTH)


class SpecializedSharedExperts:
    """``RouteSitu`` in its third role: from the small batches to 8 rows. SM90 and later."""

    needs = Needs(capability=(9, 0))

    def missing(self, call: Call, source: Source) -> str | None:
        """Small batches and more than 8 rows, whose kernels hold the activation and both products."""
        tp, rows = call.shape["tp"], call.shape["batch"]
        reason = emulated.SpecializedSharedExperts.missing(call)
        if reason:
            return reason
        if call.shape["regime"] != rows:
            return "a kernel is compiled for the rows that it runs"
        return (
            "no adapter yet for its kernels that hold the products, too, which need SM100"
            if rows > 8 or uses_small_batch(tp, rows)
            else None
        )

    def note(self, call: Call) -> str:
        """Its GEMMs need SM100."""
        return "activation by vLLM; projections emulated"

    def polls(self, call: Call) -> bool:
        """Not in this role."""
        return False

    def compose(self, call: Call, run: Run, source: Source) -> None:
        """``reference.shared_experts.reference`` says what the tensors are."""
        _Around(run)(call)


class _Around(emulated.SpecializedSharedExperts):
    def __init__(self, run: Run) -> None:
        self._run = run

    def activate(self, gate: Tensor, up: Tensor, beta: float, linear_beta: float) -> Tensor:
        hidden = torch.full(gate.shape, float("nan"), dtype=torch.bfloat16)
        inputs = {"gate_up": torch.cat([gate, up], 1), "beta": beta, "linear_beta": linear_beta}
        self._run(_Activation(), Call("shared_experts", {"batch": len(gate)}, inputs, {}, {}, {"hidden": hidden}))
        return hidden.float()


class _Activation:
    """``RouteSitu`` as ``SharedFront.shared_expert`` of moe/front.py calls it, its other roles' tensors unused."""

    step = ("gate_up",)

    def prepare(self, call: Call, source: Source) -> Prepared:
        host, float32 = source.module(module_of(HOST)), importlib.import_module("cutlass").Float32
        i, hidden = call.inputs, call.outputs["hidden"]
        rows, width = hidden.shape
        code = imported(source, FRONT, "compile_route")(
            rows, width, True, (False, False, True), hidden.device.index, False, False
        )
        unused = [
            torch.zeros(shape, dtype=dtype, device=hidden.device)
            for shape, dtype in (
                ((rows, 896), torch.float32),
                ((896,), torch.float32),
                ((rows, 16), torch.int32),
                ((rows, 16), torch.bfloat16),
                (MAILBOX, torch.bfloat16),
                ((rows, 3584), torch.bfloat16),
            )
        ]
        scalars = tuple(map(float32, (1.0, i["beta"], i["linear_beta"])))

        def launch() -> None:
            others = [host.to_cute(tensor) for tensor in unused]
            code(*others, host.to_cute(i["gate_up"]), host.to_cute(hidden), *scalars, host.stream(hidden.device))

        return Prepared(launch)
