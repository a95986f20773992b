"""The output projection's producer of the specialized path, every rank's in turn; all-reduce and residual are emulated.

vLLM's producers multicast their partials, which takes multicast memory, or, two-shot, store them to the owners of the
columns by ordinary stores. The second form runs on one GPU, where the owners' receive slots lie side by side. Up to 16 rows
vLLM itself uses the first; the two differ in where they store, not in what.
"""

import torch
from torch import Tensor

from validate.model.call import Call
from validate.paths.emulated import o_proj as emulated
from validate.paths.vllm import binding
from validate.paths.vllm.adapter import Around, Composed, Prepared, Run, other_rows
from validate.paths.vllm.entries import PREPARED_OPROJ, imported
from validate.paths.vllm.source import Source

CAPACITY = 64  # rows of a receive slot


class SpecializedOproj(Composed):
    """The mma.sync producer: up to 8 rows, at TP 8 up to 16 (above, tcgen05 needs SM100). SM90 and later."""

    def missing(self, call: Call, source: Source) -> str | None:
        """Other TP sizes, tcgen05's sizes, and kernels of other sizes than the rows that they run."""
        tp, rows = call.shape["tp"], call.shape["batch"]
        reason = emulated.SpecializedOproj.missing(call) or other_rows(call)
        if reason:
            return reason
        return None if rows <= (16 if tp == 8 else 8) else "no adapter yet for its tcgen05 producer, which needs SM100"

    def note(self, call: Call) -> str:
        """The consumer needs SM100."""
        return "partials by vLLM's producer with two-shot stores; all-reduce and residual emulated"

    def compose(self, call: Call, run: Run) -> None:
        """``reference.o_proj.reference`` says what the tensors are."""
        _Around(run)(call)


class _Around(Around, emulated.SpecializedOproj):
    def partials(self, local: Tensor, weight: Tensor, call: Call) -> Tensor:
        tp = call.shape["tp"]
        partial = torch.full((tp, len(local) // tp, len(weight)), float("nan"), dtype=torch.bfloat16)
        self._run(_Producer(), Call("o_proj", call.shape, {"local": local, "weight": weight}, {}, {}, {"partial": partial}))
        return partial


class _Producer:
    """``OprojProducer`` as ``compile_oproj`` and ``PreparedOproj.run`` of oproj/prepared.py bind it, two-shot."""

    step = ("local",)

    def prepare(self, call: Call, source: Source) -> Prepared:
        host, int32 = binding.host(source), binding.cutlass().Int32
        local, weight, out = call.inputs["local"], call.inputs["weight"], call.outputs["partial"]
        tp, rows, hidden = out.shape
        k = weight.shape[1]
        code = imported(source, PREPARED_OPROJ, "compile_oproj")("producer", k, rows, tp, 1, True, False, False, CAPACITY, True)
        received = torch.full((tp, tp, CAPACITY, hidden // tp), float("nan"), dtype=out.dtype, device=out.device)
        owners = torch.tensor([owner.data_ptr() for owner in received], dtype=torch.int64, device=out.device)
        columns = [host.to_cute(rank) for rank in local.view(tp, rows, k)]
        bound = host.to_cute(weight), host.to_cute(received[0]), host.to_cute(owners)

        def launch() -> None:
            received.fill_(float("nan"))
            for rank, x in enumerate(columns):
                code(x, *bound, int32(rank), host.stream(out.device))
            # [owner, rank, row, column] to [rank, row, owner and column]
            out.copy_(received[:, :, :rows].permute(1, 2, 0, 3).flatten(2))

        return Prepared(launch)
