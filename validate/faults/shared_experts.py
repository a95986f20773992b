"""Faults planted in the shared experts."""

import torch
from torch import Tensor

from validate.faults import fault
from validate.model.call import Call
from validate.paths.emulated import situ
from validate.paths.emulated.arithmetic import chain_sum
from validate.paths.emulated.front import merged
from validate.paths.emulated.shared_experts import SpecializedSharedExperts

BF16 = torch.bfloat16


@fault("shared_experts.gate-up-swapped", "gate and up halves change places: the other order of a fused checkpoint weight")
class GateUpSwapped(SpecializedSharedExperts):  # noqa: D101 - each fault is described by its decorator
    def gate_up(self, x: Tensor, weight: Tensor, call: Call) -> Tensor:
        gate, up = super().gate_up(x, weight, call).chunk(2, -1)
        return torch.cat([up, gate], -1)


@fault("shared_experts.linear-bound-dropped", "linear_beta taken for unset: up passes through without its tanh")
class LinearBoundDropped(SpecializedSharedExperts):  # noqa: D101
    def activate(self, gate: Tensor, up: Tensor, beta: float, linear_beta: float) -> Tensor:
        return super().activate(gate, up, beta, 2.0**20)


@fault("shared_experts.silu", "SiLU as in the older Kimi models: no bound at all")
class Silu(SpecializedSharedExperts):  # noqa: D101
    def activate(self, gate: Tensor, up: Tensor, beta: float, linear_beta: float) -> Tensor:
        return gate * situ.sigmoid(gate) * up


@fault("shared_experts.tanh-approximate", "tanh.approx as the routed experts use it, 2**-11 instead of 2**-22", subtle=True)
class TanhApproximate(SpecializedSharedExperts):  # noqa: D101
    def activate(self, gate: Tensor, up: Tensor, beta: float, linear_beta: float) -> Tensor:
        return situ.approximate(gate, up, beta, linear_beta)


@fault("shared_experts.split-k-part-lost", "the cluster's last block is left out of the sum (mutant M6)")
class SplitPartLost(SpecializedSharedExperts):  # noqa: D101
    def used_spans(self, spans: list[slice]) -> list[slice]:
        return super().used_spans(spans)[:-1]


@fault("shared_experts.gate-up-not-rounded", "SiTU reads the fp32 sums: one rounding lost", subtle=True)
class GateUpNotRounded(SpecializedSharedExperts):  # noqa: D101
    def gate_up(self, x: Tensor, weight: Tensor, call: Call) -> Tensor:
        self.unrounded = super().gate_up(x, weight, call)
        return self.unrounded

    def round_hidden(self, hidden: Tensor) -> Tensor:
        gate, up = self.unrounded.chunk(2, -1)
        return super().round_hidden(situ.exact(gate, up, 4.0, 25.0))


@fault("shared_experts.hidden-not-rounded", "the activation stays fp32 up to the down projection", subtle=True)
class HiddenNotRounded(SpecializedSharedExperts):  # noqa: D101
    def round_hidden(self, hidden: Tensor) -> Tensor:
        return hidden


@fault("shared_experts.last-h-tile-stale", "the h barrier opens early: the last 64 columns are those of another row")
class LastTileStale(SpecializedSharedExperts):  # noqa: D101
    def round_hidden(self, hidden: Tensor) -> Tensor:
        hidden = super().round_hidden(hidden).clone()
        hidden[:, -64:] = hidden[:, -128:-64]
        return hidden


@fault("shared_experts.partial-in-bf16", "the split-K parts are rounded to bf16 before they are added", subtle=True)
class PartsInBf16(SpecializedSharedExperts):  # noqa: D101
    def gate_up(self, x: Tensor, weight: Tensor, call: Call) -> Tensor:
        half = x.shape[1] // 2
        parts = [super(PartsInBf16, self).gate_up(x[:, s], weight[:, s], call) for s in (slice(half), slice(half, None))]
        return chain_sum(torch.stack(parts).to(BF16).float())


@fault("shared_experts.table-starts-late", "TP 8's tables for one row hold zeros for gates below 2**-7", subtle=True)
class TableStartsLate(SpecializedSharedExperts):  # noqa: D101
    def activate(self, gate: Tensor, up: Tensor, beta: float, linear_beta: float) -> Tensor:
        value = super().activate(gate, up, beta, linear_beta)
        tables = self.small and self.form is situ.exact
        return torch.where(gate.abs() < 2.0**-7, 0.0, value) if tables else value


@fault(
    "shared_experts.merged-kernel-through-fp16",
    "the kernel that also has the router's rows flushes an activation below fp16's normal numbers",
    subtle=True,
)
class MergedKernelThroughFp16(SpecializedSharedExperts):  # noqa: D101
    def down(self, hidden: Tensor, weight: Tensor, call: Call) -> Tensor:
        if merged(call.shape["tp"], call.shape["regime"]):
            hidden = torch.where(hidden.abs() < 2.0**-14, 0.0, hidden)
        return super().down(hidden, weight, call)


@fault(
    "shared_experts.merged-kernel-padding-leaks",
    "the kernel that also has the router's rows adds a padded row's activation to the last live one",
    subtle=True,
)
class MergedKernelPaddingLeaks(SpecializedSharedExperts):  # noqa: D101
    def down(self, hidden: Tensor, weight: Tensor, call: Call) -> Tensor:
        if merged(call.shape["tp"], call.shape["regime"]):
            last = call.shape["batch"] - 1
            hidden = hidden.clone()
            hidden[last] += 0.0 * hidden[last + 1 :].sum(0)
        return super().down(hidden, weight, call)


@fault("shared_experts.one-row-of-neighbour", "the last live row reads the activation of the row before it", subtle=True)
class OneRowOfNeighbour(SpecializedSharedExperts):  # noqa: D101
    def down(self, hidden: Tensor, weight: Tensor, call: Call) -> Tensor:
        last = call.shape["batch"] - 1
        hidden = hidden.clone()
        hidden[last] = hidden[max(last - 1, 0)]
        return super().down(hidden, weight, call)


@fault("shared_experts.padding-reaches-live-row", "a padded row's activation is added to the last live one", subtle=True)
class PaddingReachesLiveRow(SpecializedSharedExperts):  # noqa: D101
    def down(self, hidden: Tensor, weight: Tensor, call: Call) -> Tensor:
        last = call.shape["batch"] - 1
        hidden = hidden.clone()
        hidden[last] += 0.0 * hidden[last + 1 :].sum(0)
        return super().down(hidden, weight, call)
