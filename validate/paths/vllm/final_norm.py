"""The model's final norm by the default path: vLLM's compiled operator where it is installed, else its native form."""

import torch

from validate.model.call import Call
from validate.paths.vllm.adapter import Prepared, Whole
from validate.paths.vllm.entries import LAYERNORM, imported
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
