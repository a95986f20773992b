"""Faults planted in Kimi Delta Attention."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from validate.faults import fault
from validate.paths.emulated.arithmetic import tree_sum
from validate.paths.emulated.kda import SpecializedKda

Inputs = Mapping[str, Any]


@fault("kda.taps-shifted", "convolution window off by one after a partial acceptance (mutant M15; vLLM 50591)")
class TapsShifted(SpecializedKda):  # noqa: D101 - each fault is described by its decorator
    def window(self, conv: Tensor, home: Tensor, start: int, x: Tensor) -> Tensor:
        window = super().window(conv, home, start, x)
        return torch.cat([window[:, 1:3], window[:, 2:3], window[:, 3:]], 1)


@fault("kda.accepted-off-by-one", "state of the wrong draft token after verification (mutant M15; vLLM 54634)")
class AcceptedOffByOne(SpecializedKda):  # noqa: D101
    def start_slots(self, slots: Tensor, accepted: Tensor) -> Tensor:
        return slots.gather(1, accepted.long()[:, None] % slots.shape[1])[:, 0]


@fault("kda.taps-not-rolled", "convolution slot left as it was after a step: stale taps at the next one")
class TapsNotRolled(SpecializedKda):  # noqa: D101
    def next_taps(self, window: Tensor, q: int) -> Tensor:
        return window[:, 0 : q + 2]


@fault("kda.decay-of-neighbour-head", "decay of the wrong head: head stride lost in a multicast")
class DecayOfNeighbourHead(SpecializedKda):  # noqa: D101
    def decay(self, raw_gate: Tensor, i: Inputs) -> Tensor:
        return super().decay(raw_gate, i).roll(i["norm"].numel(), 1)


@fault("kda.decay-of-one-head", "one head in 12 (or 6) reads its neighbour's A_log", subtle=True)
class DecayOfOneHead(SpecializedKda):  # noqa: D101
    def decay(self, raw_gate: Tensor, i: Inputs) -> Tensor:
        a_log = i["a_log"].clone()
        a_log[-1] = a_log[-2]
        return super().decay(raw_gate, {**i, "a_log": a_log})


@fault("kda.gate-not-rounded", "the projected gate stays fp32 where the checkpoint was trained with bf16", subtle=True)
class GateNotRounded(SpecializedKda):  # noqa: D101
    def raw_gate(self, f_a: Tensor, f_b: Tensor) -> Tensor:
        return f_a.float() @ f_b.float().T


@fault("kda.convolution-rounded", "one rounding too many: the convolution's output passes through bf16", subtle=True)
class ConvolutionRounded(SpecializedKda):  # noqa: D101
    def round_convolved(self, activated: Tensor) -> Tensor:
        return activated.bfloat16().float()


@fault("kda.lower-bound-dropped", "gate without its lower bound: softplus form of the other KDA models")
class LowerBoundDropped(SpecializedKda):  # noqa: D101
    def decay(self, raw_gate: Tensor, i: Inputs) -> Tensor:
        rate = i["a_log"].exp().repeat_interleave(i["norm"].numel())
        return torch.exp(-rate * torch.nn.functional.softplus(raw_gate + i["dt_bias"]))


@fault("kda.l2-epsilon-missing", "no epsilon under the root of the l2 norm: shows on near-zero keys", subtle=True)
class L2EpsilonMissing(SpecializedKda):  # noqa: D101
    def unit(self, x: Tensor, eps: float) -> Tensor:
        return super().unit(x, 0.0)


@fault(
    "kda.query-scale-missing",
    "the query's D^-1/2 forgotten: hidden by the norm that follows but for its epsilon",
    subtle=True,
)
class QueryScaleMissing(SpecializedKda):  # noqa: D101
    def dot(self, state: Tensor, vector: Tensor) -> Tensor:
        norms = vector.norm(dim=-1, keepdim=True)
        return super().dot(state, torch.where(norms < 0.5, vector * vector.shape[-1] ** 0.5, vector))


@fault("kda.update-before-decay", "delta rule applied to the undecayed state")
class UpdateBeforeDecay(SpecializedKda):  # noqa: D101
    def step(
        self, state: Tensor, decay: Tensor, beta: Tensor, query: Tensor, key: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor]:
        delta = (value - self.dot(state, key)) * beta[..., None]
        state = state * decay[:, :, None, :] + delta[..., None] * key[:, :, None, :]
        return state, self.dot(state, query)


@fault("kda.output-of-old-state", "attention output from the state before the update")
class OutputOfOldState(SpecializedKda):  # noqa: D101
    def step(
        self, state: Tensor, decay: Tensor, beta: Tensor, query: Tensor, key: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor]:
        new, _ = super().step(state, decay, beta, query, key, value)
        return new, self.dot(state * decay[:, :, None, :], query)


@fault("kda.state-through-bf16", "recurrent state kept in bf16: drifts over a long output", subtle=True)
class StateThroughBf16(SpecializedKda):  # noqa: D101
    def store(self, state: Tensor, slot: int, value: Tensor) -> None:
        super().store(state, slot, value.bfloat16().float())


@fault("kda.null-slot-written", "a padded row writes slot 0 (mutant M16; vLLM 43810)")
class NullSlotWritten(SpecializedKda):  # noqa: D101
    def is_live(self, slot: int) -> bool:
        return slot >= 0

    def store(self, state: Tensor, slot: int, value: Tensor) -> None:
        if slot >= 0:
            state[slot] = value


@fault(
    "kda.null-token-slot-written",
    "verify step stores a token's state without asking whether it has a slot",
    subtle=True,
)
class NullTokenSlotWritten(SpecializedKda):  # noqa: D101
    def store(self, state: Tensor, slot: int, value: Tensor) -> None:
        state[max(slot, 0)] = value


@fault("kda.padding-clamped-to-slot-0", "slot -1 clamped to 0 and taken for a live request (tokenspeed 700)")
class PaddingClamped(SpecializedKda):  # noqa: D101
    def start_slots(self, slots: Tensor, accepted: Tensor) -> Tensor:
        return super().start_slots(slots, accepted).clamp_min(0)

    def is_live(self, slot: int) -> bool:
        return slot >= 0


@fault("kda.last-row-stale", "one row of the batch keeps the state of the step before", subtle=True)
class LastRowStale(SpecializedKda):  # noqa: D101
    def step(
        self, state: Tensor, decay: Tensor, beta: Tensor, query: Tensor, key: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor]:
        new, attended = super().step(state, decay, beta, query, key, value)
        new[-1] = state[-1]
        return new, attended


@fault("kda.norm-over-all-heads", "RMSNorm over the whole row instead of each head")
class NormOverAllHeads(SpecializedKda):  # noqa: D101
    def normalise(self, attended: Tensor, gate: Tensor, i: Inputs) -> Tensor:
        mean = tree_sum(attended * attended).mean(1, keepdim=True) / attended.shape[-1]
        return (attended * torch.rsqrt(mean + i["norm_eps"])[..., None] * i["norm"] * gate).bfloat16()


@fault("kda.gate-before-norm", "output gate applied before the norm instead of after it")
class GateBeforeNorm(SpecializedKda):  # noqa: D101
    def normalise(self, attended: Tensor, gate: Tensor, i: Inputs) -> Tensor:
        return super().normalise(attended * gate, torch.ones_like(gate), i)
