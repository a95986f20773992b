"""Faults that lose a little in every step, or from some step on."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from validate.faults.drift import Counted, cut, fault
from validate.paths.emulated.arithmetic import fma
from validate.paths.emulated.kda import SpecializedKda

TF32_BITS, TF32_FROM = 13, 8_192
LOSES_A_BIT = 8_192  # steps
BF16_FROM = 1 << 14
Parts = tuple[Tensor, Tensor]


@fault("decay-biased", "decays too small by 1e-6: an exp of a table, good to bf16's needs")
class DecayBiased(SpecializedKda):  # noqa: D101 - each fault is described by its decorator
    def decay(self, raw_gate: Tensor, i: Mapping[str, Any]) -> Tensor:
        return super().decay(raw_gate, i) * (1 - 1e-6)


@fault("decay-cut", "decays cut off towards zero, not rounded: half an ulp too small on average")
class DecayCut(SpecializedKda):  # noqa: D101
    def decay(self, raw_gate: Tensor, i: Mapping[str, Any]) -> Tensor:
        rate = i["a_log"].double().exp().repeat_interleave(i["norm"].numel())
        exact = torch.exp(i["lower_bound"] * torch.sigmoid(rate * (raw_gate.double() + i["dt_bias"])))
        rounded = exact.float()
        return torch.where(rounded > exact, torch.nextafter(rounded, torch.zeros(())), rounded)


@fault("decay-flushed", "log decays below 2**-16 are flushed to zero: slow heads never forget")
class DecayFlushed(SpecializedKda):  # noqa: D101
    def decay(self, raw_gate: Tensor, i: Mapping[str, Any]) -> Tensor:
        found = super().decay(raw_gate, i)
        return torch.where(1 - found < 2.0**-16, 1.0, found)


@fault("update-cut", "the update's sum is cut off towards zero, as a tensor core's, not rounded")
class UpdateCut(SpecializedKda):  # noqa: D101
    def step(self, state: Tensor, decay: Tensor, beta: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Parts:
        state = state * decay[:, :, None, :]
        delta = self.correction(state, beta, key, value)
        exact = torch.addcmul(state.double(), delta[..., None].double(), key[:, :, None, :].double())
        state = fma(delta[..., None], key[:, :, None, :], state)
        state = torch.where(state.double().abs() > exact.abs(), torch.nextafter(state, torch.zeros(())), state)
        return state, self.round_output(self.dot(state, query))


@fault(
    "state-in-tf32", "from 8,192 steps on the state is kept in tf32: another kernel for long sequences", from_step=TF32_FROM + 1
)
class StateInTf32(Counted):  # noqa: D101
    def store(self, state: Tensor, slot: int, value: Tensor) -> None:
        super().store(state, slot, cut(value, TF32_BITS) if self.taken > TF32_FROM else value)


@fault(
    "bits-lost", "a bit of the state's mantissa is lost every 8,192 steps: a scale that is never renewed", from_step=LOSES_A_BIT
)
class BitsLost(Counted):  # noqa: D101
    def store(self, state: Tensor, slot: int, value: Tensor) -> None:
        super().store(state, slot, cut(value, min(self.taken // LOSES_A_BIT, 16)))


@fault(
    "beta-in-bf16",
    "from 16,384 steps on one head's beta is rounded to bf16: a fallback that stores it so",
    from_step=BF16_FROM + 1,
)
class BetaInBf16(Counted):  # noqa: D101
    def correction(self, state: Tensor, beta: Tensor, key: Tensor, value: Tensor) -> Tensor:
        if self.taken > BF16_FROM:
            beta = beta.clone()
            beta[:, -1] = beta[:, -1].bfloat16().float()
        return super().correction(state, beta, key, value)
