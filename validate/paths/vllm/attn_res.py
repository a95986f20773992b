"""Attention residuals by vLLM's own kernels: one Triton kernel (default), seven-CTA clusters in CuTe DSL (specialized)."""

import torch

from validate.model.call import Call
from validate.paths.vllm.adapter import Prepared, Whole
from validate.paths.vllm.entries import ATTN_RES, PREPARED_ATTN_RES, imported
from validate.paths.vllm.source import Source

# Sources (saved blocks and prefix, over all rows) that the interpreter gets through in about two seconds.
MOST_SOURCES = 80


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
        return "no adapter yet for the form fused with the o-projection, which needs SM100" if call.shape["fused"] else None

    def polls(self, call: Call) -> bool:
        """A mailbox, until all parts are there."""
        return call.inputs["delta"] is None

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
