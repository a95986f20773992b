"""Latent attention of the default path: its matrix products around an emulated core.

The norms and the insertion are Triton and CuTe kernels behind vLLM's warm-up, the decode core FlashInfer's: not run here.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from validate.model.call import Call
from validate.paths.emulated import mla as emulated
from validate.paths.vllm.adapter import Around, Composed, Prepared, Run
from validate.paths.vllm.framework import in_fp32, linear, linear_note, notes, stored
from validate.paths.vllm.source import Source

Product = Callable[[Source, Tensor, Tensor], Tensor]


class DefaultMla(Composed):
    """``q_b_proj``, the products with ``W_UK_T`` and ``W_UV`` of models/kimi_k3/nvidia/mla.py (vLLM 0.33.0).

    The first is a linear layer, the others are torch's ``bmm`` (``_attention``, ``_v_up_proj``).
    """

    def missing(self, call: Call, source: Source) -> str | None:
        """Nothing."""
        return None

    def note(self, call: Call) -> str | None:
        """The rest of the stage."""
        return notes("matrix products by vLLM; norms, insertion, core and gate emulated", linear_note(call.shape["batch"]))

    def compose(self, call: Call, run: Run) -> None:
        """``reference.mla.reference`` says what the tensors are."""
        _Around(run)(call)


class _Around(Around, emulated.DefaultMla):
    def project(self, x: Tensor, weight: Tensor) -> Tensor:
        return self._product(linear, x, weight, (len(x), len(weight)))

    def absorb(self, q: Tensor, w_uk: Tensor) -> Tensor:
        return self._product(_by_head, q, w_uk, (len(q), w_uk.shape[0], w_uk.shape[2])).float()

    def project_value(self, latent: Tensor, w_uv: Tensor) -> Tensor:
        return self._product(_by_head, latent, w_uv, (len(latent), w_uv.shape[0], w_uv.shape[2])).float()

    def _product(self, of: Product, x: Tensor, weight: Tensor, shape: tuple[int, ...]) -> Tensor:
        out = torch.full(shape, float("nan"), dtype=torch.bfloat16)
        self._run(_Product(of), Call("mla", {}, {"x": x, "weight": weight}, {}, {}, {"out": out}))
        return out


class _Product:
    step = ("x",)

    def __init__(self, of: Product) -> None:
        self._of = of

    def prepare(self, call: Call, source: Source) -> Prepared:
        x, weight, out = call.inputs["x"], call.inputs["weight"], call.outputs["out"]
        return stored(out, lambda: self._of(source, x, weight))


def _by_head(_: Source, x: Tensor, weight: Tensor) -> Tensor:
    """bf16 [rows, heads, n] of x [rows, heads, k] and weight [heads, k, n]."""
    x = x.transpose(0, 1)
    return (torch.bmm(x, weight) if x.is_cuda else in_fp32(torch.bmm, x, weight)).transpose(0, 1)
