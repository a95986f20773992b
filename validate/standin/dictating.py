"""Dictates turns (``turns.py``) in vLLM, by a logits processor."""

from typing import Any

import torch

from validate.equivalence.following import Following
from validate.standin.turns import Conversation


class Dictating(Following[tuple[Conversation, list[int]]]):
    """Leaves the dictated token alone of each request that has one to decode."""

    KEY = "k3_parity_turns"  # {"turns": ids of each, "end": id}

    def carried(self, given: Any, decoded: list[int]) -> tuple[Conversation, list[int]]:
        """The conversation, the tokens decoded so far."""
        return Conversation(tuple(tuple(turn) for turn in given["turns"]), given["end"]), decoded

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """``logits`` [rows, vocabulary]; changed in place."""
        for row, (conversation, decoded) in self.rows.items():
            conversation.take(decoded[conversation.seen :])
            if conversation.due:
                logits[row] = float("-inf")
                logits[row, conversation.due[0]] = 0.0
        return logits
