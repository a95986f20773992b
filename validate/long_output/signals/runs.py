"""Runs of one token that stands for nothing: id 0, which a sampler returns where all logits are NaN, and padding.

After 240,000 tokens of context vLLM emitted id 0 to the end of every later request (vllm-project/vllm 51039); SGLang streamed
up to 17,256 of the padding id (sgl-project/sglang 32968).
"""

from collections.abc import Collection, Sequence

RUN = 16  # tokens; the research's figure for K3, and no text has so many


def run(tokens: Sequence[int], ids: Collection[int]) -> int | None:
    """The first token of the first run of at least ``RUN`` tokens, each one of ``ids``; None without one."""
    length = 0
    for position, token in enumerate(tokens):
        length = length + 1 if token in ids else 0
        if length == RUN:
            return position - RUN + 1
    return None
