"""What some requests carry through the rows of vLLM's batch, for logits processors; loaded by vLLM, by name.

vLLM calls logits processors after it has taken the raw log-probabilities (``v1/sample/sampler.py`` of 0.32.0, with
``logprobs_mode`` ``raw_logprobs``, its default), so what it reports of each token is what it would have said anyway.
"""

from abc import abstractmethod
from typing import Any, Generic, TypeVar

import torch
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor, MoveDirectionality

Carried = TypeVar("Carried")


class Following(LogitsProcessor, Generic[Carried]):
    """``rows`` are those of the requests whose SamplingParams have ``KEY`` among their extra_args."""

    KEY: str

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        self.rows: dict[int, Carried] = {}

    @abstractmethod
    def carried(self, given: Any, decoded: list[int]) -> Carried:
        """Of a new request: what it was ``given``, and vLLM's own list of the tokens decoded so far."""

    def is_argmax_invariant(self) -> bool:
        """It changes the best token."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follows the requests through the rows of the batch."""
        if batch_update is None:
            return
        for row in batch_update.removed:
            self.rows.pop(row, None)
        for row, params, _, decoded in batch_update.added:
            self.rows.pop(row, None)
            if given := (params.extra_args or {}).get(self.KEY):
                self.rows[row] = self.carried(given, decoded)
        for source, target, direction in batch_update.moved:
            moved, displaced = self.rows.pop(source, None), self.rows.pop(target, None)
            if moved is not None:
                self.rows[target] = moved
            if displaced is not None and direction == MoveDirectionality.SWAP:
                self.rows[source] = displaced
