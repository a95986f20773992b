"""The choice of experts by the specialized path's own kernels.

Over all ranks the whole front runs. One GPU alone runs the kernel that routes, ``RouteSitu``, on emulated logits: they come
through a mailbox to which all ranks multicast their shards, and other streams play the ranks. The GEMM that publishes them,
and the one-kernel small batches, need multicast memory.
"""

import torch

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.paths.emulated import router as emulated
from validate.paths.emulated.front import uses_small_batch
from validate.paths.vllm import route_situ
from validate.paths.vllm.adapter import Composed, Prepared, Run, other_rows
from validate.paths.vllm.front import Front, Layer
from validate.paths.vllm.front_adapter import FrontOverRanks
from validate.paths.vllm.mailboxes import check_armed
from validate.paths.vllm.source import Source


class RouterOverRanks(FrontOverRanks):
    """The front's kernels of all ranks. SM100 and later."""

    def layer(self, call: Call) -> Layer:
        """The latent's weight is made of the gate."""
        i = call.inputs
        return Layer(i["gate"], -i["gate"].repeat(K3.latent // K3.experts, 1), i["bias"], i["scaling"])

    def read(self, front: Front, call: Call) -> None:
        """What this rank routes by."""
        for output, there in (("ids", front.ids), ("weights", front.weights)):
            call.outputs[output][0].copy_(there[: call.shape["batch"]])


class SpecializedRouter(Composed):
    """The routing kernel beyond the small batches, at the rows that it is compiled for. SM90 and later."""

    def missing(self, call: Call, source: Source) -> str | None:
        """Small batches, and kernels of other sizes than the rows that they run."""
        tp, rows = call.shape["tp"], call.shape["batch"]
        if tp == 1:
            return "the specialized path needs 8 or 16 ranks"
        small = "one kernel does a small batch, by multicast: it needs all ranks"
        return other_rows(call) or (small if uses_small_batch(tp, rows) else None)

    def note(self, call: Call) -> str:
        """The logits are emulated."""
        return "choice and weights by vLLM; logits emulated"

    def compose(self, call: Call, run: Run) -> None:
        """``reference.router.reference`` says what the tensors are. All ranks run the same kernel on the same logits."""
        i = call.inputs
        stage = emulated.SpecializedRouter()
        stage.tp, stage.regime = call.shape["tp"], call.shape["regime"]
        logits = stage.logits(i["x"], i["gate"]) + 0.0  # without -0, the mailbox's sentinel
        box = route_situ.front_mailbox(len(logits))
        box[0, : len(logits), K3.latent :] = logits.view(torch.bfloat16)
        ids, weights = call.outputs["ids"], call.outputs["weights"]
        inputs = {"bias": i["bias"], "scaling": i["scaling"]}
        buffers = {"mailbox": box}
        part = Call("router", call.shape, inputs, {}, buffers, {"ids": ids[0], "weights": weights[0]})
        run(_Route(), part)
        check_armed("the front's mailbox", box)
        ids[:], weights[:] = ids[0].clone(), weights[0].clone()


class _Route:
    """``RouteSitu`` in the roles that ``SharedFront`` of moe/front.py gives it: it routes and copies the latent."""

    step = ()

    def prepare(self, call: Call, source: Source) -> Prepared:
        i, rows, box = call.inputs, call.shape["batch"], call.buffers["mailbox"]
        used = {"bias": i["bias"], "mailbox": box, "ids": call.outputs["ids"], "weights": call.outputs["weights"]}
        scalars = (i["scaling"], 4.0, 25.0)  # the last two are of the role that it has not here
        launch = route_situ.bound(source, (True, True, False), rows, K3.shared_intermediate // call.shape["tp"], scalars, used)
        return Prepared(launch, (box[:, :rows],))
