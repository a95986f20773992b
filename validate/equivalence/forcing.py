"""Decodes given tokens on the engine's real decode path, by a logits processor, for runners without trace replay."""

from typing import Any

import torch

from validate.equivalence.following import Following


class Forced(Following[tuple[list[int], list[int]]]):
    """Leaves of each request that has tokens to force the next of them alone."""

    KEY = "k3_parity_forced"  # the tokens to decode

    def carried(self, given: Any, decoded: list[int]) -> tuple[list[int], list[int]]:
        """The tokens to force, those decoded so far."""
        return [int(token) for token in given], decoded

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """``logits`` [rows, vocabulary]; changed in place."""
        rows = [(row, forced[len(decoded)]) for row, (forced, decoded) in self.rows.items() if len(decoded) < len(forced)]
        if rows:
            which, tokens = (torch.tensor(part, device=logits.device) for part in zip(*rows, strict=True))
            logits[which] = float("-inf")
            logits[which, tokens] = 0.0
        return logits
