"""Layer 0's dense MLP: whole on SM100; on SM90 its activation, between emulated projections (split-K GEMMs by tcgen05)."""

from types import SimpleNamespace

import torch
from torch import Tensor

from validate.model.call import Call
from validate.paths import Broken
from validate.paths.emulated import dense_mlp as emulated
from validate.paths.vllm import binding
from validate.paths.vllm.adapter import Around, Composed, Needs, Prepared, Run, Whole
from validate.paths.vllm.entries import DENSE, imported
from validate.paths.vllm.source import Source


class SpecializedDenseMlp(Whole):
    """``PreparedDenseMLP`` as ``SpecializedDecode`` binds it, without its all-reduce: the call is one rank's partial. SM100.

    The rows are those of the regime: what a CUDA graph was prepared for, padded rows after the live ones.
    """

    needs = Needs(capability=(10, 0))
    step = ("x",)

    def missing(self, call: Call, source: Source) -> str | None:
        """The kernels exist at two sizes."""
        return emulated.SpecializedDenseMlp.missing(call)

    def prepare(self, call: Call, source: Source) -> Prepared:
        """``reference.dense_mlp.reference`` says what the tensors are."""
        i, partial = call.inputs, call.outputs["partial"]
        mlp = SimpleNamespace(
            gate_up_proj=SimpleNamespace(weight=i["gate_up"]),
            down_proj=SimpleNamespace(weight=i["down"]),
            act_fn=SimpleNamespace(beta=i["beta"], linear_beta=i["linear_beta"]),
        )
        x = i["x"]
        prepared = imported(source, DENSE, "PreparedDenseMLP")(mlp, [len(x)])
        out = torch.empty_like(x)

        def launch() -> None:
            # Zeros that nobody writes where the down projection is padded would be found as NaN.
            for unwritten in (prepared.gates, prepared.hidden_rows, out):
                unwritten.fill_(float("nan"))
            prepared.run(x, out)
            partial.copy_(out[: len(partial)])

        return Prepared(launch)


class SpecializedDenseSitu(Composed):
    """``DenseSitu``: SiTU with the native tanh, and zeros where TP 16's down projection is padded. SM90."""

    def missing(self, call: Call, source: Source) -> str | None:
        """The kernels exist at two sizes."""
        return emulated.SpecializedDenseMlp.missing(call)

    def note(self, call: Call) -> str:
        """Its GEMMs need SM100."""
        return "activation by vLLM; projections emulated"

    def compose(self, call: Call, run: Run) -> None:
        """``reference.dense_mlp.reference`` says what the tensors are."""
        _Around(run)(call)


class _Around(Around, emulated.SpecializedDenseMlp):
    def activate(self, gate: Tensor, up: Tensor, beta: float, linear_beta: float) -> Tensor:
        width = gate.shape[1]
        out = torch.full((len(gate), width + -width % 128), float("nan"), dtype=torch.bfloat16)
        inputs = {"gate_up": torch.cat([gate, up], 1).bfloat16(), "beta": beta, "linear_beta": linear_beta}
        self._run(_Activation(), Call("dense_mlp", {"width": width}, inputs, {}, {}, {"out": out}))
        padding = int((out[:, width:] != 0).sum())
        if padding:
            raise Broken("hidden", "complete", padding, f"{padding} padded columns are not zero")
        return out[:, :width].float()


class _Activation:
    """``_compile_activation`` as ``PreparedDenseMLP`` of moe/dense.py calls it."""

    step = ("gate_up",)

    def prepare(self, call: Call, source: Source) -> Prepared:
        host, float32 = binding.host(source), binding.cutlass().Float32
        i, out = call.inputs, call.outputs["out"]
        arch = host.architecture(out.device)
        code = imported(source, DENSE, "_compile_activation")(call.shape["width"], out.shape[1], arch)
        scalars = float32(i["beta"]), float32(i["linear_beta"])

        def launch() -> None:
            code(host.dynamic_view(i["gate_up"]), host.dynamic_view(out), *scalars, host.stream(out.device))

        return Prepared(launch)
