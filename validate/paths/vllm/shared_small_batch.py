"""The shared experts of TP 8's one row: the small batch's own kernel for the activation and the down projection.

The projection before them is part of the kernel that routes (``MoeFrontTP8``), which multicasts its share of the latent: it
needs all ranks, and is emulated.
"""

import torch
from torch import Tensor

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.paths import Broken
from validate.paths.emulated import shared_experts as emulated
from validate.paths.emulated.front import uses_small_batch
from validate.paths.emulated.mailbox import armed, fold
from validate.paths.vllm import binding
from validate.paths.vllm.adapter import Around, Composed, Needs, Prepared, Run
from validate.paths.vllm.entries import CHAIN, imported
from validate.paths.vllm.source import Source

WIDTH = K3.shared_intermediate // 8
# As SmallBatchBox of moe/small_batch/chain.py: halves by layer, rows, and of the results thirds by MoE layer.
HALVES, ROWS, GATE_ROWS, THIRDS, RESULT_ROWS = 2, 4, 2, 3, 8
HALF, THIRD = 1, 2  # of this call: any would do
FRONT_SMS = 96  # that the kernel leaves to others (SmallBatchChain)


class SmallSharedExperts(Composed):
    """``MoeSharedTP8`` with the tables of ``SharedSituTables``, as ``SmallBatchChain`` binds them. SM100.

    The kernel waits for the MoE layer's input row and for gate and up, which other kernels publish; here other streams do.
    """

    needs = Needs(capability=(10, 0))

    def missing(self, call: Call, source: Source) -> str | None:
        """Other sizes, which have other kernels."""
        tp, rows = call.shape["tp"], call.shape["regime"]
        return None if tp == 8 and uses_small_batch(tp, rows) else "the kernel is that of TP 8's one row"

    def note(self, call: Call) -> str:
        """The projection before them is part of a kernel that multicasts."""
        return "activation and down projection by vLLM; gate and up emulated"

    def compose(self, call: Call, run: Run) -> None:
        """``reference.shared_experts.reference`` says what the tensors are."""
        _Around(run)(call)


class _Around(Around, emulated.SpecializedSharedExperts):
    def activate(self, gate: Tensor, up: Tensor, beta: float, linear_beta: float) -> Tensor:
        self.bounds = beta, linear_beta
        return torch.cat([gate, up], 1)  # the kernel of the down projection applies SiTU, too

    def down(self, hidden: Tensor, weight: Tensor, call: Call) -> Tensor:
        input_row = armed((HALVES, 1, ROWS, K3.hidden))
        input_row[HALF, 0, :1] = fold(call.inputs["x"])
        results = torch.full((THIRDS, RESULT_ROWS, K3.hidden), float("nan"), dtype=torch.bfloat16)
        beta, linear_beta = self.bounds
        part = Call(
            "shared_experts",
            call.shape,
            {"down": weight, "beta": beta, "linear_beta": linear_beta},
            {},
            {"input_row": input_row, "gate_up": flagged(hidden).view(torch.bfloat16)},
            {"results": results},
        )
        self._run(_Shared(), part)
        stray = results.view(torch.int16) != -1
        stray[THIRD, 0] = False
        if stray.any():
            raise Broken("partial", "complete", int(stray.sum()), f"{int(stray.sum())} values of other rows are written")
        return results[THIRD, :1].float()


class _Shared:
    step = ()

    def prepare(self, call: Call, source: Source) -> Prepared:
        host, cutlass = binding.host(source), binding.cutlass()
        i, input_row, gate_up, results = call.inputs, *call.buffers.values(), call.outputs["results"]
        device = results.device
        bind = imported(source, CHAIN, "_launch")
        tables = torch.full((2 * 65536,), float("nan"), device=device)
        code, operands = bind("tables", (tables,))
        code(*operands, cutlass.Float32(i["beta"]), cutlass.Float32(i["linear_beta"]), host.stream(device))
        words = gate_up.view(torch.int32).flatten().view(torch.uint32)
        grid = torch.cuda.get_device_properties(device).multi_processor_count - FRONT_SMS
        code, operands = bind("shared", (input_row, i["down"], tables, words, results), grid=grid)

        def launch() -> None:
            results.view(torch.int32).fill_(-1)
            code(*operands, cutlass.Int32(HALF), cutlass.Int32(THIRD), host.stream(device))

        return Prepared(launch, (input_row[HALF, :, :1], gate_up[HALF, None, :1]))


def flagged(gate_up: Tensor) -> Tensor:
    """int32 [halves, rows, 2 * width]: gate and up [1, 2 * width], which are bf16, as ``MoeFrontTP8`` publishes them.

    A word is the value's bits above a 1; what is not published is 0.
    """
    words = torch.zeros(HALVES, GATE_ROWS, 2 * WIDTH, dtype=torch.int32)
    words[HALF, 0] = gate_up[0].bfloat16().view(torch.int16).to(torch.int32) << 16 | 1
    return words
