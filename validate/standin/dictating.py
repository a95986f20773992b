"""Dictates turns (``turns.py``) in vLLM, by a logits processor; loaded by vLLM, by name.

As in ``equivalence/forcing.py``, what vLLM reports of each token is what it would have said anyway.
"""

from typing import Any

import torch
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor, MoveDirectionality

from validate.standin.turns import Conversation

KEY = "k3_parity_turns"  # of SamplingParams.extra_args: {"turns": ids of each, "end": id}


class Dictating(LogitsProcessor):
    """Leaves the dictated token alone of each request that has one to decode."""

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        self._rows: dict[int, tuple[Conversation, list[int]]] = {}  # by row; vLLM's own list of the tokens decoded so far

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
            if given := (params.extra_args or {}).get(KEY):
                self._rows[row] = Conversation(tuple(tuple(turn) for turn in given["turns"]), given["end"]), decoded
        for source, target, direction in batch_update.moved:
            moved, displaced = self._rows.pop(source, None), self._rows.pop(target, None)
            if moved is not None:
                self._rows[target] = moved
            if displaced is not None and direction == MoveDirectionality.SWAP:
                self._rows[source] = displaced

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """``logits`` [rows, vocabulary]; changed in place."""
        for row, (conversation, decoded) in self._rows.items():
            conversation.take(decoded[conversation.seen :])
            if conversation.due:
                logits[row] = float("-inf")
                logits[row, conversation.due[0]] = 0.0
        return logits
