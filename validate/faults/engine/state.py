"""Faults planted in what KDA layers keep between steps, and in who keeps what."""

from typing import Any

import torch
from torch import Tensor

from validate.faults.engine import fault
from validate.model.decoding import Request
from validate.paths.dispatch import Deployment, Plan
from validate.standin.forms import Cache, Forms, Weights
from validate.standin.specialized import SpecializedForms

Parts = tuple[Tensor, Tensor, Tensor]


@fault("stale-slot-after-preemption", "slots of a graph's buffer not written anew once all requests were preempted (vLLM 56736)")
class StaleSlots(SpecializedForms):  # noqa: D101 - each fault is described by its decorator
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.before: dict[int, Tensor] = {}

    def kda_decode(
        self, weights: Weights, cache: Cache, parts: Parts, slots: Tensor, accepted: Tensor, continued: Tensor
    ) -> Tensor:
        before = self.before.get(id(weights))
        self.before[id(weights)] = slots
        if before is not None and before.shape == slots.shape and not (before == slots).any():
            slots = before
        return super().kda_decode(weights, cache, parts, slots, accepted, continued)


@fault("prefix-of-wrong-block", "a prompt with a cached prefix goes on from the state of another block (llama.cpp 26185)")
class PrefixOfWrongBlock(Forms):  # noqa: D101
    def kda_prefill(self, weights: Weights, cache: Cache, parts: Parts, slot: int, continued: bool) -> Tensor:
        if continued:
            for part in cache:
                part[slot] = part[slot - 1]
        return super().kda_prefill(weights, cache, parts, slot, continued)


@fault("padded-row-written", "a step is padded, and the padding row's state goes to a live slot (vLLM 43810, tokenspeed 700)")
class PaddedRowWritten(SpecializedForms):  # noqa: D101
    padded = 0

    def plan(self, requests: tuple[Request, ...], deployment: Deployment) -> Plan:
        made = super().plan(requests, deployment)
        self.padded = made.rows - sum(request.rows for request in requests)
        return made

    def kda_decode(
        self, weights: Weights, cache: Cache, parts: Parts, slots: Tensor, accepted: Tensor, continued: Tensor
    ) -> Tensor:
        out = super().kda_decode(weights, cache, parts, slots, accepted, continued)
        if self.padded:
            first = parts[0][:1], parts[1][:1], parts[2][:1]  # what is in the padding row
            super().kda_decode(weights, cache, first, slots[-1:], accepted[-1:], continued[-1:])
        return out


@fault("fallback-skips-write", "a step that falls back reads the state and does not write it (vLLM 55178, 50591)")
class FallbackSkipsWrite(Forms):  # noqa: D101
    def kda_store(self, state: Tensor, slots: Tensor, value: Tensor) -> None:
        pass


@fault("write-lost-now-and-then", "the next kernel starts before the last store: one row in 97 steps of a layer (vLLM 45448)")
class WriteLost(SpecializedForms):  # noqa: D101
    stores = 0

    def kda_store(self, state: Tensor, slots: Tensor, value: Tensor) -> None:
        self.stores += 1
        lost = self.stores % 97 == 0
        super().kda_store(state, slots[lost:], value[lost:])


@fault("slots-of-neighbour", "requests moved in the batch and their slots did not: two rows swapped in one step of 40")
class SlotsOfNeighbour(SpecializedForms):  # noqa: D101
    steps = 0

    def plan(self, requests: tuple[Request, ...], deployment: Deployment) -> Plan:
        self.steps += 1
        return super().plan(requests, deployment)

    def kda_start(self, slots: Tensor, accepted: Tensor) -> Tensor:
        start = super().kda_start(slots, accepted)
        if self.steps % 40 == 0 and len(start) > 1:
            start = torch.cat([start[:2].flip(0), start[2:]])
        return start


@fault(
    "short-prompt-continues", "a first chunk of a token or two is taken for a decode of what the slot held before (vLLM 51483)"
)
class ShortPromptContinues(Forms):  # noqa: D101
    def kda_prefill(self, weights: Weights, cache: Cache, parts: Parts, slot: int, continued: bool) -> Tensor:
        return super().kda_prefill(weights, cache, parts, slot, continued or len(parts[0]) <= 2)


@fault("prefilled-state-transposed", "a prompt's state handed to decode as [key, value] (vLLM 41292)")
class PrefilledStateTransposed(Forms):  # noqa: D101
    def kda_prefill(self, weights: Weights, cache: Cache, parts: Parts, slot: int, continued: bool) -> Tensor:
        out = super().kda_prefill(weights, cache, parts, slot, continued)
        cache[1][slot] = cache[1][slot].mT.clone()
        return out


@fault(
    "state-in-bf16",
    "recurrent state kept in bf16: drifts over a long output; in 48 tokens it stays below bfloat16's other roundings",
    shown="float32",
)
class StateInBf16(SpecializedForms):  # noqa: D101
    def kda_store(self, state: Tensor, slots: Tensor, value: Tensor) -> None:
        super().kda_store(state, slots, value.bfloat16().float())


@fault("taps-of-wrong-offset", "the convolution's window begins one row late")
class TapsOfWrongOffset(SpecializedForms):  # noqa: D101
    def kda_taps(self, conv: Tensor, home: Tensor, accepted: Tensor) -> Tensor:
        taps = super().kda_taps(conv, home, accepted)
        return torch.cat([taps[:, 1:], taps[:, -1:]], 1)


@fault(
    "state-of-rejected-draft",
    "after a partial acceptance the state of the last draft is taken, which was rejected (vLLM 54634, 43559)",
    shown="drafts",
)
class StateOfRejectedDraft(SpecializedForms):  # noqa: D101
    def kda_start(self, slots: Tensor, accepted: Tensor) -> Tensor:
        return slots[:, -1]


@fault("state-one-draft-early", "the state before the last accepted token is taken (vLLM 54634)", shown="drafts")
class StateOneDraftEarly(SpecializedForms):  # noqa: D101
    def kda_start(self, slots: Tensor, accepted: Tensor) -> Tensor:
        return super().kda_start(slots, (accepted - 1).clamp_min(1))


@fault(
    "taps-of-rejected-draft",
    "the convolution's window is not moved by how many drafts were accepted (vLLM 50591)",
    shown="drafts",
)
class TapsOfRejectedDraft(SpecializedForms):  # noqa: D101
    def kda_taps(self, conv: Tensor, home: Tensor, accepted: Tensor) -> Tensor:
        return super().kda_taps(conv, home, torch.ones_like(accepted))
