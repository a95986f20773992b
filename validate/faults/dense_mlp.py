"""Faults planted in the dense MLP of layer 0."""

import torch
from torch import Tensor

from validate.faults import fault
from validate.model.call import Call
from validate.paths.emulated import situ
from validate.paths.emulated.dense_mlp import SpecializedDenseMlp

BF16 = torch.bfloat16


@fault("dense_mlp.gate-up-swapped", "gate and up halves change places")
class GateUpSwapped(SpecializedDenseMlp):  # noqa: D101 - each fault is described by its decorator
    def activate(self, gate: Tensor, up: Tensor, beta: float, linear_beta: float) -> Tensor:
        return super().activate(up, gate, beta, linear_beta)


@fault("dense_mlp.linear-bound-dropped", "linear_beta taken for unset (-1): up passes through without its tanh")
class LinearBoundDropped(SpecializedDenseMlp):  # noqa: D101
    def activate(self, gate: Tensor, up: Tensor, beta: float, linear_beta: float) -> Tensor:
        return super().activate(gate, up, beta, 2.0**20)


@fault("dense_mlp.half-forgotten", "(1 + tanh) for the sigmoid without its factor of one half")
class HalfForgotten(SpecializedDenseMlp):  # noqa: D101
    def activate(self, gate: Tensor, up: Tensor, beta: float, linear_beta: float) -> Tensor:
        return 2 * super().activate(gate, up, beta, linear_beta)


@fault("dense_mlp.split-k-part-lost", "the owner reads its mailbox before the last peer's part is there (flashinfer 4266)")
class SplitPartLost(SpecializedDenseMlp):  # noqa: D101
    def used_spans(self, spans: list[slice]) -> list[slice]:
        return super().used_spans(spans)[:-1]


@fault("dense_mlp.padding-not-zeroed", "columns that only the padded activation has hold NaN of another use")
class PaddingNotZeroed(SpecializedDenseMlp):  # noqa: D101
    def pad(self, hidden: Tensor, padding: int) -> Tensor:
        return torch.nn.functional.pad(hidden, (0, padding), value=torch.nan)


@fault("dense_mlp.tanh-approximate", "tanh.approx instead of the accurate one", subtle=True)
class TanhApproximate(SpecializedDenseMlp):  # noqa: D101
    def activate(self, gate: Tensor, up: Tensor, beta: float, linear_beta: float) -> Tensor:
        return situ.approximate(gate, up, beta, linear_beta)


@fault("dense_mlp.hidden-not-rounded", "the activation stays fp32 up to the down projection", subtle=True)
class HiddenNotRounded(SpecializedDenseMlp):  # noqa: D101
    def round_hidden(self, hidden: Tensor) -> Tensor:
        return hidden


@fault("dense_mlp.gate-up-in-tf32", "the first product's sums keep 11 bits", subtle=True)
class GateUpCoarse(SpecializedDenseMlp):  # noqa: D101
    def gate_up(self, x: Tensor, weight: Tensor, call: Call) -> Tensor:
        total = super().gate_up(x, weight, call)
        return (total.view(torch.int32) & -0x2000).view(torch.float32)


@fault("dense_mlp.one-row-of-neighbour", "the last live row reads the activation of the row before it", subtle=True)
class OneRowOfNeighbour(SpecializedDenseMlp):  # noqa: D101
    def down(self, hidden: Tensor, weight: Tensor, call: Call) -> Tensor:
        last = call.shape["batch"] - 1
        hidden = hidden.clone()
        hidden[last] = hidden[max(last - 1, 0)]
        return super().down(hidden, weight, call)
