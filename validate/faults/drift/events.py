"""Faults that happen once, or once in thousands of steps."""

import torch
from torch import Tensor

from validate.faults.drift import RARE, Counted, fault

SWAPPED, STALE, POISONED, WRAPS = 5_000, 10_007, 12_345, 1 << 16
Parts = tuple[Tensor, Tensor]


@fault(
    "stored-late", "one step in 4,096 reads the state before its predecessor's store: exit wait lost (mutant M8)", from_step=RARE
)
class StoredLate(Counted):  # noqa: D101 - each fault is described by its decorator
    def store(self, state: Tensor, slot: int, value: Tensor) -> None:
        if not self.rare:
            super().store(state, slot, value)


@fault("stepped-twice", "one step in 4,096 is applied twice: a captured graph replayed after a retry", from_step=RARE)
class SteppedTwice(Counted):  # noqa: D101
    def step(self, state: Tensor, decay: Tensor, beta: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Parts:
        state, attended = super().step(state, decay, beta, query, key, value)
        if self.rare:
            state, attended = super(Counted, self).step(state, decay, beta, query, key, value)
        return state, attended


@fault("correction-dropped", "one step in 4,096 only decays: the update's barrier lost, its registers still zero", from_step=RARE)
class CorrectionDropped(Counted):  # noqa: D101
    def correction(self, state: Tensor, beta: Tensor, key: Tensor, value: Tensor) -> Tensor:
        found = super().correction(state, beta, key, value)
        return torch.zeros_like(found) if self.rare else found


@fault(
    "moved-through-bf16",
    "one step in 4,096 the state is moved through a bf16 buffer: preemption to a cache of that dtype",
    from_step=RARE,
)
class MovedThroughBf16(Counted):  # noqa: D101
    def store(self, state: Tensor, slot: int, value: Tensor) -> None:
        super().store(state, slot, value.bfloat16().float() if self.rare else value)


@fault("slots-swapped", "two requests have each other's slot for one step: a batch reordered under a graph", from_step=SWAPPED)
class SlotsSwapped(Counted):  # noqa: D101
    def start_slots(self, slots: Tensor, accepted: Tensor) -> Tensor:
        found = super().start_slots(slots, accepted)
        return found.roll(1, 0) if self.taken + 1 == SWAPPED else found


@fault(
    "row-stale", "one row of one head is not stored in one step: a predicate off by one at the edge of a tile", from_step=STALE
)
class RowStale(Counted):  # noqa: D101
    def store(self, state: Tensor, slot: int, value: Tensor) -> None:
        if self.taken == STALE:
            value = value.clone()
            value[-1, -1] = state[slot, -1, -1]
        super().store(state, slot, value)


@fault(
    "element-poisoned",
    "an element of one request is not a number from one step on: an overrun of a neighbour",
    from_step=POISONED,
)
class ElementPoisoned(Counted):  # noqa: D101
    def store(self, state: Tensor, slot: int, value: Tensor) -> None:
        super().store(state, slot, value)
        if self.taken == POISONED:
            state[1, 0, 0, 0] = torch.nan


@fault(
    "counter-wraps",
    "a step count of 16 bits wraps to 0: the request is taken for a new one, its state for zeros",
    from_step=WRAPS,
)
class CounterWraps(Counted):  # noqa: D101
    def step(self, state: Tensor, decay: Tensor, beta: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Parts:
        begins = (self.taken + 1) % WRAPS == 0
        return super().step(torch.zeros_like(state) if begins else state, decay, beta, query, key, value)
