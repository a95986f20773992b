"""The default path's gated MLP, which the shared experts and layer 0 have in common: one rank's partial."""

from types import SimpleNamespace

import torch

from validate.model.call import Call
from validate.paths.vllm.adapter import Prepared, Whole
from validate.paths.vllm.entries import ACTIVATION, imported
from validate.paths.vllm.framework import compiled, linear, linear_note, notes
from validate.paths.vllm.source import Source


class DefaultMlp(Whole):
    """``KimiMLP.forward`` of models/kimi_k3/nvidia/model.py (vLLM 0.33.0), without the all-reduce: two linear layers and
    ``SituAndMul`` between them.

    Its ``forward_cuda`` calls a compiled operator, as custom operators are enabled where torch.compile is not; bare files
    have ``forward_native``.
    """

    step = ("x",)

    def missing(self, call: Call, source: Source) -> str | None:
        """Nothing."""
        return None

    def note(self, call: Call) -> str | None:
        """What vLLM has compiled."""
        activation = (
            None if compiled("situ_and_mul") else "the activation's native form; a deployment takes its compiled operator"
        )
        return notes(linear_note(call.shape["regime"]), activation)

    def prepare(self, call: Call, source: Source) -> Prepared:
        """``reference.shared_experts.reference`` says what the tensors are."""
        i, partial = call.inputs, call.outputs["partial"]
        situ = imported(source, ACTIVATION, "SituAndMul")
        layer = SimpleNamespace(beta=i["beta"], linear_beta=i["linear_beta"])
        if compiled("situ_and_mul"):
            layer.op = torch.ops._C.situ_and_mul
        activate = situ.forward_cuda if compiled("situ_and_mul") else situ.forward_native

        def launch() -> None:
            hidden = activate(layer, linear(source, i["x"], i["gate_up"]))
            partial.copy_(linear(source, hidden, i["down"])[: len(partial)])

        return Prepared(launch)
