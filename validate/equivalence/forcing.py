"""Decodes given tokens on the engine's real decode path, by a logits processor, for runners without trace replay.

vLLM calls logits processors after it has taken the raw log-probabilities (``v1/sample/sampler.py`` of 0.32.0, with
``logprobs_mode`` ``raw_logprobs``, its default), so what it reports of each token is what it would have said anyway. Loaded by
vLLM, by name: this module alone imports vLLM at its top.
"""

from typing import Any

import torch
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor, MoveDirectionality

KEY = "k3_parity_forced"  # of SamplingParams.extra_args: the tokens to decode


class Forced(LogitsProcessor):
    """Leaves of each request that has tokens to force the next of them alone."""

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        self._rows: dict[int, tuple[list[int], list[int]]] = {}  # by row: the tokens to force, those decoded so far

    def is_argmax_invariant(self) -> bool:
        """It changes the best token."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follows the requests through the rows of the batch."""
        if batch_update is None:
            return
        for row in batch_update.removed:
            self._rows.pop(row, None)
        for row, params, _, decoded in batch_update.added:
            self._rows.pop(row, None)
            if forced := (params.extra_args or {}).get(KEY):
                self._rows[row] = ([int(token) for token in forced], decoded)
        for source, target, direction in batch_update.moved:
            moved, displaced = self._rows.pop(source, None), self._rows.pop(target, None)
            if moved is not None:
                self._rows[target] = moved
            if displaced is not None and direction == MoveDirectionality.SWAP:
                self._rows[source] = displaced

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """``logits`` [rows, vocabulary]; changed in place."""
        rows = [(row, forced[len(decoded)]) for row, (forced, decoded) in self._rows.items() if len(decoded) < len(forced)]
        if rows:
            which, tokens = (torch.tensor(part, device=logits.device) for part in zip(*rows, strict=True))
            logits[which] = float("-inf")
            logits[which, tokens] = 0.0
        return logits
