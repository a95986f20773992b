"""The model's final norm. Default: vLLM's compiled operator where it is installed, else its native form.

Specialized: the last step of the final ``ClusterAttnRes``, whose mix of sources is made to be the row itself.
"""

import torch

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.paths.vllm.adapter import Prepared, Whole
from validate.paths.vllm.entries import LAYERNORM, PREPARED_ATTN_RES, imported
from validate.paths.vllm.framework import compiled, stored
from validate.paths.vllm.source import Source


class DefaultFinalNorm(Whole):
    """``RMSNorm`` as ``compute_logits`` of models/kimi_k3/nvidia/model.py (vLLM 0.33.0) applies it.

    K3 runs without torch.compile (config/vllm.py, breakable CUDA graphs), so ``vllm_c`` comes before ``native`` among the
    implementations (platforms/cuda.py): ``torch.ops._C.rms_norm``, called as kernels/vllm_c.py does.
    """

    step = ("x",)

    def missing(self, call: Call, source: Source) -> str | None:
        """Nothing."""
        return None

    def note(self, call: Call) -> str | None:
        """The compiled operator is there only if vLLM is installed."""
        return None if compiled("rms_norm") else "vLLM's native form; a deployment takes its compiled operator"

    def prepare(self, call: Call, source: Source) -> Prepared:
        """``reference.final_norm.reference`` says what the tensors are."""
        x, weight, eps = (call.inputs[name] for name in ("x", "weight", "eps"))
        out = call.outputs["out"]
        if compiled("rms_norm"):
            return Prepared(lambda: torch.ops._C.rms_norm(out, x, weight, eps))
        native = imported(source, LAYERNORM, "rms_norm")
        native = native.impls["native"].impl_fn if source.installed else native
        return stored(out, lambda: native(x, weight, eps))


class SpecializedFinalNorm(Whole):
    """``PreparedAttnRes`` in its final form, with all eight blocks (vLLM 0.33.0, specialized_decode/runtime/decode.py).

    The prefix and every block are the row, and no source is preferred (the query is zero): nine equal sources mix to the row,
    up to roundings of fp32.
    """

    step = ("x",)

    def missing(self, call: Call, source: Source) -> str | None:
        """Nothing."""
        return None

    def prepare(self, call: Call, source: Source) -> Prepared:
        """``reference.final_norm.reference`` says what the tensors are."""
        x, weight, eps = (call.inputs[name] for name in ("x", "weight", "eps"))
        key = (K3.attn_res_blocks, True, -1, True)  # adds the delta to the prefix, saves no block, final
        weights = (torch.ones_like(weight), torch.zeros_like(weight), weight)  # norm and query of the sources, final norm
        attn_res = imported(source, PREPARED_ATTN_RES, "PreparedAttnRes")(weights, key, (eps, eps))
        prefix, blocks = torch.empty_like(x), torch.empty_like(x)[:, None].repeat(1, K3.attn_res_blocks, 1)

        def launch() -> None:
            prefix.zero_()
            blocks.copy_(x[:, None])
            call.outputs["out"].fill_(torch.nan)  # last: the kernel reads the others before it waits for what precedes it
            attn_res.run(x, prefix, blocks, call.outputs["out"])

        return Prepared(launch)
