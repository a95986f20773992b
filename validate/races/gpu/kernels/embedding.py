"""``EmbeddingGather`` by vLLM's ``PreparedEmbedding`` (0.33.0, cutedsl/common/embedding.py).

It is the one kernel that is launched without leave to start early, and so need not wait for its predecessor.
"""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from validate.model.dimensions import K3
from validate.paths.vllm.entries import PREPARED_EMBEDDING, module_of
from validate.paths.vllm.source import Source
from validate.races.gpu.bound import Bound, poison, region, weight

VOCABULARY = 512


class _Alone:
    def all_reduce(self, partial: Tensor) -> Tensor:
        return partial


def bind(source: Source, device: torch.device, *, rows: int) -> Bound:
    """One rank with the whole of a small table."""
    file: Any = source.module(module_of(PREPARED_EMBEDDING))
    file.get_tp_group = _Alone
    table = weight(device, 0, VOCABULARY, K3.hidden)
    prepared = file.PreparedEmbedding(SimpleNamespace(weight=table, org_vocab_size=VOCABULARY), 1, 0)
    late, (ids,) = region(device, [((rows,), torch.int64)])
    out = torch.empty(rows, K3.hidden, dtype=torch.bfloat16, device=device)

    def refresh(seed: int) -> None:
        poison(out)
        ids.copy_((torch.arange(rows, device=device) * 7 + seed * 31) % VOCABULARY)

    return Bound(lambda: prepared.run(ids, out), {"out": out}, refresh, late)
