"""Dense MLP of layer 0 as each path computes it, one rank."""

import torch
from torch import Tensor

from validate.model.call import Call
from validate.paths.emulated import situ
from validate.paths.emulated.arithmetic import chain_sum, gemm
from validate.paths.emulated.shared_experts import DefaultSharedExperts


class DefaultDenseMlp(DefaultSharedExperts):
    """The same module as the shared experts, wider (vLLM 0.33.0, models/kimi_k3/nvidia/model.py ``KimiMLP``)."""


class SpecializedDenseMlp(DefaultDenseMlp):
    """``PreparedDenseMLP``: split-K projections with SiTU between them (vLLM 0.33.0,
    specialized_decode/cutedsl/moe/dense.py).

    TP16's down projection is padded from 2112 to 2176 columns, which the activation fills with zeros.
    """

    @staticmethod
    def missing(call: Call) -> str | None:
        """The kernels exist at two sizes."""
        return None if call.shape["tp"] in (8, 16) else "the specialized path needs 8 or 16 ranks"

    def gate_up(self, x: Tensor, weight: Tensor, call: Call) -> Tensor:
        """K split over a cluster of four blocks to 8 rows, of two above; the owner adds its peers' parts in order."""
        parts = 4 if call.shape["regime"] <= 8 else 2
        width = x.shape[1] // parts
        spans = [slice(start, start + width) for start in range(0, x.shape[1], width)]
        return chain_sum(torch.stack([gemm(x[:, s], weight[:, s]) for s in self.used_spans(spans)]))

    def activate(self, gate: Tensor, up: Tensor, beta: float, linear_beta: float) -> Tensor:
        """fp32 [rows, width]: SiTU with a second tanh for its sigmoid."""
        return situ.half(gate, up, beta, linear_beta)

    def used_spans(self, spans: list[slice]) -> list[slice]:
        """K parts in their order of addition."""
        return spans

    def down(self, hidden: Tensor, weight: Tensor, call: Call) -> Tensor:
        """One chain over the padded width."""
        padding = -hidden.shape[1] % 128
        return gemm(self.pad(hidden, padding), torch.nn.functional.pad(weight, (0, padding)))

    def pad(self, hidden: Tensor, padding: int) -> Tensor:
        """Zeros for the columns that only the padded weight has."""
        return torch.nn.functional.pad(hidden, (0, padding))
