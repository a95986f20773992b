"""Attention residuals by vLLM's own kernels: one Triton kernel (default), seven-CTA clusters in CuTe DSL (specialized)."""

import torch
from torch import Tensor

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.paths.emulated.mailbox import armed, fold
from validate.paths.vllm import binding
from validate.paths.vllm.adapter import Composed, Needs, Prepared, Run, Whole
from validate.paths.vllm.entries import ATTN_RES, PREPARED_ATTN_RES, PREPARED_OPROJ, imported
from validate.paths.vllm.mailboxes import check_armed
from validate.paths.vllm.source import Source

# Sources (saved blocks and prefix, over all rows) that the interpreter gets through in about two seconds.
MOST_SOURCES = 80
RANKS, CAPACITY = 8, 64  # slots and rows of the o-projection's mailbox, as at TP 8


class DefaultAttnRes(Whole):
    """``attn_res`` as ``KimiLinearModel`` calls it (vLLM 0.33.0, models/kimi_k3/nvidia/model.py).

    The first layer of a block and the first of all pass what would be added as the prefix, without a delta. The final
    form leaves the norm out and applies the model's ``RMSNorm`` afterwards, which is torch's here. The auxiliary stream
    is a sum of prefix and delta in bf16, formed by torch. On SM100 an installed vLLM takes its compiled kernel.
    """

    step = ("delta",)

    def missing(self, call: Call, source: Source) -> str | None:
        """Mailboxes, which the default path has not, and calls that would take the interpreter minutes."""
        if call.inputs["delta"] is None:
            return "reads a mailbox, which the default path has not"
        sources = call.shape["batch"] * (call.shape["blocks"] + 1)
        if source.interpreted and sources > MOST_SOURCES:
            return f"{sources} sources: Triton's interpreter is run up to {MOST_SOURCES}"
        return None

    def note(self, call: Call) -> str | None:
        """The compiled kernel is there only if vLLM is installed."""
        compiled = hasattr(torch.ops._C, "kimi_k3_attn_res")
        return None if compiled else "Triton's kernel; on SM100 an installed vLLM takes its compiled one"

    def prepare(self, call: Call, source: Source) -> Prepared:
        """``reference.attn_res.reference`` says what the tensors are."""
        i, s = call.inputs, call.shape
        rows = s["batch"]
        attn_res = imported(source, ATTN_RES, "attn_res")
        prefix = call.buffers["prefix"][:rows]

        def launch() -> None:
            delta = i["delta"]
            if not s["add"]:
                prefix.copy_(delta)
                delta = None
            if "aux" in call.outputs:
                call.outputs["aux"].copy_(prefix if delta is None else prefix + delta)
            out = attn_res(
                prefix,
                delta,
                call.buffers["blocks"][:rows],
                i["norm"],
                i["query"],
                None if s["final"] else i["out_norm"],
                num_blocks=s["blocks"],
                block_write_idx=s["write"],
                eps=i["eps"],
                output_norm_eps=i["out_eps"],
            )
            if s["final"]:
                # As ir/ops/layernorm.py: the normalised row takes the weight's dtype before it is multiplied.
                out = torch.nn.functional.rms_norm(out.float(), out.shape[-1:], None, i["out_eps"]).to(torch.bfloat16)
                out = out * i["out_norm"]
            call.outputs["out"].copy_(out)

        return Prepared(launch)


class SpecializedAttnRes(Whole):
    """``PreparedAttnRes`` as ``SpecializedDecode`` calls it (vLLM 0.33.0, specialized_decode/runtime/decode.py).

    Before attention and at the end of the model; the form before the MLP is fused with the o-projection. SM90 and later.
    """

    step = ("delta",)

    def missing(self, call: Call, source: Source) -> str | None:
        """The fused form: it reads all ranks' partials of the o-projection."""
        return "the form fused with the o-projection needs SM100" if call.shape["fused"] else None

    def prepare(self, call: Call, source: Source) -> Prepared:
        """``reference.attn_res.reference`` says what the tensors are."""
        i, s, rows = call.inputs, call.shape, call.shape["batch"]
        key = (s["blocks"], bool(s["add"]), s["write"], bool(s["final"]))
        weights = (i["norm"], i["query"], i["out_norm"])
        prepared = imported(source, PREPARED_ATTN_RES, "PreparedAttnRes")(weights, key, (i["eps"], i["out_eps"]))
        mailbox, aux = call.buffers["mailbox"], call.outputs.get("aux")
        if i["delta"] is None:
            prepared.bind_ring(mailbox)
        if aux is not None:
            prepared.bind_aux()
        prefix, blocks, out = call.buffers["prefix"][:rows], call.buffers["blocks"][:rows], call.outputs["out"]
        if i["delta"] is None:
            return Prepared(lambda: prepared.run_ring(prefix, blocks, out, aux), (mailbox[:, :rows],))
        return Prepared(lambda: prepared.run(i["delta"], prefix, blocks, out, aux))


class FusedAttnRes(Composed):
    """``OprojConsumer`` of oproj/consumer.py: the form before the MLP, which adds up all ranks' partials itself. SM100.

    Here the case's delta is handed out to the slots of a mailbox, and other streams play the ranks. TP 16 has the same
    code for more slots, up to 8 rows mostly in one kernel with its producer (oproj/prepared.py, ``PreparedOproj``).
    """

    needs = Needs(capability=(10, 0))

    def missing(self, call: Call, source: Source) -> str | None:
        """The other forms."""
        return None if call.shape["fused"] else "the other forms have a kernel of their own"

    def note(self, call: Call) -> str:
        """Where the partials come from."""
        return f"the o-projection's consumer alone; the delta in the slots of {RANKS} ranks"

    def compose(self, call: Call, run: Run) -> None:
        """``reference.attn_res.reference`` says what the tensors are."""
        box = armed((RANKS, CAPACITY, K3.hidden))
        box[:, : call.shape["batch"]] = handed_out(call.inputs["delta"], RANKS)
        inputs = {name: call.inputs[name] for name in ("norm", "query", "out_norm", "eps", "out_eps")}
        buffers = {"prefix": call.buffers["prefix"], "blocks": call.buffers["blocks"], "mailbox": box}
        run(_Consumer(), Call("attn_res", call.shape, inputs, {}, buffers, call.outputs))
        check_armed("the mailbox", box)


class _Consumer:
    """Bound as ``PreparedOproj.run`` of oproj/prepared.py binds it, one-shot, without a MoE front."""

    step = ()

    def prepare(self, call: Call, source: Source) -> Prepared:
        host, float32 = binding.host(source), binding.cutlass().Float32
        i, s, rows, box = call.inputs, call.shape, call.shape["batch"], call.buffers["mailbox"]
        k = K3.heads * K3.head_dim // RANKS  # of its producer
        compile_ = imported(source, PREPARED_OPROJ, "compile_oproj")
        code = compile_("consumer", k, rows, RANKS, s["blocks"], bool(s["add"]), False)
        state = (host.dynamic_view(call.buffers[name][:rows]) for name in ("prefix", "blocks"))
        weights = (host.to_cute(i[name]) for name in ("norm", "query", "out_norm"))
        out = call.outputs["out"]
        operands = (host.to_cute(box), *state, *weights, host.dynamic_view(out), None, None)
        epsilons = float32(i["eps"]), float32(i["out_eps"])
        return Prepared(lambda: code(*operands, *epsilons, host.stream(out.device)), (box[:, :rows],))


def handed_out(delta: Tensor, ranks: int) -> Tensor:
    """bf16 [ranks, rows, columns] whose sum over the ranks, in any order, is ``delta`` [rows, columns] exactly.

    Each element is one rank's, in turn along columns and rows; the others' are +0. So a slot that is left out, or added
    twice, shows in every row. A -0 becomes +0: writers publish none, and no sum over ranks is one.
    """
    rows, columns = delta.shape
    owner = (torch.arange(rows)[:, None] + torch.arange(columns)) % ranks
    return torch.where(owner == torch.arange(ranks)[:, None, None], fold(delta), 0.0)
