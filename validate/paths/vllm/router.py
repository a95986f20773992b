"""The choice of experts by the specialized path's own kernel, ``RouteSitu``, from emulated logits.

The logits come through a mailbox to which all ranks multicast their shards; here other streams play the ranks. The GEMM
that publishes them, and the one-kernel small batches, need multicast memory.
"""

import importlib

import torch

from validate.model.call import Call
from validate.paths import Broken
from validate.paths.emulated import router as emulated
from validate.paths.emulated.front import uses_small_batch
from validate.paths.vllm.adapter import Needs, Prepared, Run
from validate.paths.vllm.device import SENTINEL
from validate.paths.vllm.entries import FRONT, HOST, imported, module_of
from validate.paths.vllm.source import Source

LATENT, EXPERTS = 3584, 896
CAPACITY = 64  # rows of the mailbox
ROW = LATENT + 2 * EXPERTS  # bf16 columns of a mailbox's row: the latent, then fp32 logits (front.py WIDTH)


class SpecializedRouter:
    """The routing kernel beyond the small batches, at the rows that it is compiled for. SM90 and later."""

    needs = Needs(capability=(9, 0))

    def missing(self, call: Call, source: Source) -> str | None:
        """Small batches, and kernels of other sizes than the rows that they run."""
        tp, rows = call.shape["tp"], call.shape["batch"]
        if tp == 1:
            return "the specialized path needs 8 or 16 ranks"
        if call.shape["regime"] != rows:
            return "a kernel is compiled for the rows that it runs"
        return "one kernel does a small batch, by multicast: it needs all ranks" if uses_small_batch(tp, rows) else None

    def note(self, call: Call) -> str:
        """The logits are emulated."""
        return "choice and weights by vLLM; logits emulated"

    def polls(self, call: Call) -> bool:
        """The kernel waits for the logits."""
        return True

    def compose(self, call: Call, run: Run, source: Source) -> None:
        """``reference.router.reference`` says what the tensors are. All ranks run the same kernel on the same logits."""
        i = call.inputs
        stage = emulated.SpecializedRouter()
        stage.tp, stage.regime = call.shape["tp"], call.shape["regime"]
        logits = stage.logits(i["x"], i["gate"]) + 0.0  # without -0, the mailbox's sentinel
        box = torch.full((1, CAPACITY, ROW // 2), SENTINEL, dtype=torch.int32)
        box[0, : len(logits), : LATENT // 2] = 0
        box[0, : len(logits), LATENT // 2 :] = logits.view(torch.int32)
        ids, weights = call.outputs["ids"], call.outputs["weights"]
        inputs = {"bias": i["bias"], "scaling": i["scaling"]}
        buffers = {"mailbox": box.view(torch.bfloat16)}
        part = Call("router", call.shape, inputs, {}, buffers, {"ids": ids[0], "weights": weights[0]})
        run(_Route(), part)
        left = int((part.buffers["mailbox"].view(torch.int32) != SENTINEL).sum())
        if left:
            raise Broken("mailbox", "complete", left, f"{left} words are not armed again")
        ids[:], weights[:] = ids[0].clone(), weights[0].clone()


class _Route:
    """``RouteSitu`` in the roles that ``SharedFront`` of moe/front.py gives it: it routes and copies the latent."""

    step = ()

    def prepare(self, call: Call, source: Source) -> Prepared:
        host, cutlass = source.module(module_of(HOST)), importlib.import_module("cutlass")
        i, rows, box = call.inputs, call.shape["batch"], call.buffers["mailbox"]
        shared = 6144 // call.shape["tp"]
        code = imported(source, FRONT, "compile_route")(rows, shared, True, (True, True, False), box.device.index, True, False)
        unused = {
            name: torch.zeros(rows, width, dtype=dtype, device=box.device)
            for name, width, dtype in (
                ("logits", EXPERTS, torch.float32),
                ("latent", LATENT, torch.bfloat16),
                ("gate_up", 2 * shared, torch.float32),
                ("hidden", shared, torch.bfloat16),
            )
        }
        scalars = tuple(map(cutlass.Float32, (i["scaling"], 4.0, 25.0)))
        ids, weights = call.outputs["ids"], call.outputs["weights"]

        def launch() -> None:
            view = {name: host.to_cute(tensor) for name, tensor in unused.items()}
            bias, mailbox = host.to_cute(i["bias"]), host.to_cute(box)
            head = (view["logits"], bias, host.to_cute(ids), host.to_cute(weights), mailbox)
            code(*head, view["latent"], view["gate_up"], view["hidden"], *scalars, host.stream(box.device))

        return Prepared(launch, (box[:, :rows],))
