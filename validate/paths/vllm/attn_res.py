"""Attention residuals on vLLM's default path: its own Triton kernel in Triton's interpreter, one rank."""

import torch

from validate.model.call import Call
from validate.paths.vllm.loading import Kernels

# Sources (saved blocks and prefix, over all rows) that the interpreter gets through in about two seconds.
MOST_SOURCES = 80


class VllmAttnRes:
    """``attn_res`` as ``KimiLinearModel`` calls it (vLLM 0.33.0, models/kimi_k3/nvidia/model.py).

    The first layer of a block and the first of all pass what would be added as the prefix, without a delta. The final
    form leaves the norm out and applies the model's ``RMSNorm`` afterwards, which is torch's here. The auxiliary stream
    is a sum of prefix and delta in bf16, formed by torch.
    """

    def missing(self, call: Call) -> str | None:
        """Mailboxes, which the default path has not, and calls that would take the interpreter minutes."""
        if call.inputs["delta"] is None:
            return "reads a mailbox, which the default path has not"
        sources = call.shape["batch"] * (call.shape["blocks"] + 1)
        if sources > MOST_SOURCES:
            return f"{sources} sources: Triton's interpreter is run up to {MOST_SOURCES}"
        return None

    def __call__(self, call: Call, kernels: Kernels) -> None:
        """Runs the stage; ``reference.attn_res.reference`` says what the tensors are."""
        i, s = call.inputs, call.shape
        rows = s["batch"]
        prefix, delta = call.buffers["prefix"][:rows], i["delta"]
        if not s["add"]:
            prefix.copy_(delta)
            delta = None
        if "aux" in call.outputs:
            call.outputs["aux"].copy_(prefix if delta is None else prefix + delta)
        out = kernels.attn_res(
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
