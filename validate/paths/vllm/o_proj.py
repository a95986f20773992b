"""The output projection of the specialized path: over all ranks, or its producer alone, every rank's in turn on one GPU.

On one GPU all-reduce and residual are emulated. vLLM's producers multicast their partials, which takes multicast memory, or,
two-shot, store them to the owners of the columns by ordinary stores. The second form runs on one GPU, where the owners'
receive slots lie side by side. Up to 16 rows, at TP 8 up to 32, vLLM itself uses the first; the two differ in where they
store, not in what.
"""

from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import Tensor

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.paths.emulated import o_proj as emulated
from validate.paths.emulated.mailbox import arm
from validate.paths.vllm import binding, mailboxes
from validate.paths.vllm.adapter import Around, Composed, Group, Needs, OverRanks, Prepared, Run, other_rows
from validate.paths.vllm.entries import PREPARED_OPROJ, TWOSHOT, imported
from validate.paths.vllm.source import Source

CAPACITY = 64  # rows of a receive slot
SMALL_BATCHES = {8: (1,), 16: (1, 2)}  # whose consumer also publishes to the MoE's front (moe/small_batch/chain.py)


class SpecializedOprojOverRanks(OverRanks):
    """``PreparedOproj`` as ``Attention`` of specialized_decode/runtime/providers.py (vLLM 0.33.0) prepares and calls it.

    The kernels store the prefix, and nowhere the sum that goes into it. So a call is two layers in turn, as in the model:
    one adds to a prefix of zeros, which leaves the sum (+0 for -0), the other to the call's prefix. One is KDA's and has the
    even half of the mailbox, the other latent attention's with the odd half: which of them adds to the call's prefix is the
    call's parity. Their kernels differ at TP 16 up to 4 rows, where KDA's alone are fused. A block-write layer is always
    KDA's, and its prefix is the sum. The AttnRes behind gets the operands of a layer of the last block, and ``attn_res``
    judges it. The call's own mailboxes stand for the real ones in the emulation, and stay as they are.
    """

    step = ("local",)

    def missing(self, call: Call, source: Source) -> str | None:
        """Other TP sizes."""
        return emulated.SpecializedOproj.missing(call)

    def prepare(self, share: Call, source: Source, group: Group) -> Prepared:
        """``reference.o_proj.reference`` says what the tensors are."""
        local, weight, s = share.inputs["local"], share.inputs["weight"], share.shape
        rows, batch, tp, device = s["regime"], s["batch"], s["tp"], weight.device
        mailbox = mailboxes.allocated(source, PREPARED_OPROJ, "OprojMailbox", group, device)
        twoshot = mailboxes.allocated(source, TWOSHOT, "TwoShot", group, device)
        prepared = imported(source, PREPARED_OPROJ, "PreparedOproj")

        def empty(*shape: int) -> Tensor:
            return torch.empty(shape, dtype=torch.bfloat16, device=device)

        blocks = torch.ones_like(empty(rows, K3.attn_res_blocks, K3.hidden))
        summed, added, out = empty(rows, K3.hidden), empty(rows, K3.hidden), empty(rows, K3.hidden)
        front = (empty(1, 4, K3.hidden), torch.zeros(224, dtype=torch.int32, device=device), SMALL_BATCHES[tp])

        def layer(parity: int, mla: bool) -> Callable[[Tensor], None]:
            decoder = _layer(weight, parity, bool(s["write"]))
            of = prepared(decoder, mailbox, (rows,), mla, front, twoshot)

            def run(prefix: Tensor) -> None:
                # The kernels read the prefix before they wait for what precedes them, so that must not be what wrote it.
                out.fill_(torch.nan)
                of.run(local, prefix, blocks, out)

            return run

        write, parity = s["write"], s["parity"]
        last = layer(parity, not write and parity == 1)
        first = None if write else layer(1 - parity, parity == 0)
        prefix, delta = share.buffers["prefix"][0], share.outputs["delta"][0]

        def launch() -> None:
            summed.fill_(torch.nan if write else 0.0)
            added.fill_(torch.nan)
            added[:batch].copy_(prefix)
            if first is None:
                last(summed)
            else:
                first(summed)
                last(added)
            delta.copy_(summed[:batch])
            prefix.copy_((summed if write else added)[:batch])

        own = (mailbox.buffer, twoshot.recv, twoshot.gather)
        polled = own[1:] if rows in imported(source, PREPARED_OPROJ, "twoshot_batches")(tp) else own[:1]
        return Prepared(
            launch,
            tuple(box[half, :, :rows] for box in polled for half in range(2)),
            arm=lambda: arm(*own),
            collect=lambda: mailboxes.check_armed("the mailboxes", *own),
        )


def _layer(weight: Tensor, parity: int, write: bool) -> SimpleNamespace:
    """What PreparedOproj reads of a decoder layer: one of the last AttnRes block, 84 (which writes it) to 92."""
    ones = torch.ones(K3.hidden, dtype=weight.dtype, device=weight.device)
    norm = SimpleNamespace(weight=ones, variance_epsilon=K3.rms_eps)
    return SimpleNamespace(
        layer_idx=K3.layers // K3.attn_res_block * K3.attn_res_block + (0 if write else 2) + parity,
        is_block_write_layer=write,
        prev_valid_blocks=K3.attn_res_blocks - write,
        self_attn=SimpleNamespace(o_proj=SimpleNamespace(weight=weight)),
        mlp_res_norm=norm,
        mlp_res_proj=SimpleNamespace(weight=ones[None]),
        post_attention_layernorm=norm,
    )


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


class SpecializedTcgenOproj(SpecializedOproj):
    """The same with the tcgen05 producer above. On one GPU, where ``SpecializedOprojOverRanks`` cannot run."""

    needs = Needs(capability=(10, 0))

    def missing(self, call: Call, source: Source) -> str | None:
        """Other TP sizes, and kernels of other sizes than the rows that they run."""
        return emulated.SpecializedOproj.missing(call) or other_rows(call)


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
