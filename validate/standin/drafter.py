"""A drafter that stands in for DSpark: without a model, but with as many drafts in every step, of which some are accepted.

vLLM loads it by name: ``speculative_config = {method = "custom_class", model = "validate.standin.drafter.Drafter", ...}``.
A draft goes on as the tokens so far went on after their last stretch that is like their end (prompt lookup). DSpark always
proposes as many tokens as it is configured for, so that verify steps have the same rows of each request; hence a draft that is
too short is filled up here by repeating its last token, and where nothing is found the last token decoded. Drafts depend on the
request's own tokens alone.
"""

from typing import Any

import numpy as np

LONGEST = 4  # tokens of the end that are looked for; fewer where those are not found, at least one


class Drafter:
    """Proposes ``num_speculative_tokens`` tokens for every request that was given one."""

    def __init__(self, vllm_config: Any) -> None:
        self.drafts = vllm_config.speculative_config.num_speculative_tokens

    def load_model(self, model: Any) -> None:
        """Called by vLLM; there is no model to load."""

    def propose(self, sampled: list[list[int]], lengths: np.ndarray, tokens: np.ndarray, **_: Any) -> list[list[int]]:
        """By row of the batch: ``tokens`` int [rows, longest], of which ``lengths`` count. None where nothing was sampled."""
        return [drafted(tokens[n, : lengths[n]], self.drafts) if new else [] for n, new in enumerate(sampled)]


def drafted(tokens: np.ndarray, drafts: int) -> list[int]:
    """The continuation of ``tokens`` [n], n at least 1: always ``drafts`` tokens."""
    for length in range(min(LONGEST, len(tokens) - 1), 0, -1):
        stretches = np.lib.stride_tricks.sliding_window_view(tokens[:-1], length)
        (like,) = (stretches == tokens[-length:]).all(1).nonzero()
        if len(like):
            after = int(like[-1]) + length
            found = tokens[after : after + drafts]
            break
    else:
        found = tokens[-1:]
    return [int(token) for token in found] + [int(found[-1])] * (drafts - len(found))
