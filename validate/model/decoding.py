"""What a whole model decodes in a case: the steps, and the caches that they share."""

from dataclasses import dataclass

import torch
from torch import Tensor

from validate.model.dimensions import Dimensions
from validate.model.draws import Draws

BLOCK = 64  # rows of a page of the MLA cache


@dataclass(frozen=True)
class Request:
    """One request's share of a step: its query rows, and whether they belong to its prompt.

    A single prompt token over tokens that have a state is none: it runs as a decode (vLLM 0.33.0,
    ``v1/worker/gpu/model_runner.py``, ``prefill_runs_as_decode_np``).
    """

    rows: int
    prompt: bool = False


@dataclass(frozen=True)
class Step:
    """One step of the engine, padded to ``rows``; rows of a request are consecutive, padded requests come last.

    ``tokens`` int64 [rows]; ``slots`` int32 [requests, q] of the KDA state and ``accepted`` int32 [requests];
    ``cache_slots`` int64 [1, rows] of the MLA cache (-1: not written), ``lengths`` int32 [1, requests] with the new rows
    (0: padding). ``requests`` are the live ones as the scheduler sees them; ``specialized`` says which path must serve.
    """

    requests: tuple[Request, ...]
    q: int
    tokens: Tensor
    slots: Tensor
    accepted: Tensor
    cache_slots: Tensor
    lengths: Tensor
    specialized: bool

    @property
    def rows(self) -> int:
        """Prepared rows."""
        return self.tokens.numel()

    @property
    def live(self) -> int:
        """Rows of live requests."""
        return sum(request.rows for request in self.requests)


def caches(draws: Draws, d: Dimensions, tp: int, q: int, slots: int, pages: int) -> dict[str, Tensor]:
    """Old state in every slot and page.

    ``conv`` bf16 [KDA layers, ranks, slots, 3 * width, 3 or q + 2], ``state`` fp32 [KDA layers, ranks, slots, H, D, D],
    ``cache`` E4M3 [MLA layers, 1, pages, block, row], the same on all ranks.
    """
    mla = sum(d.is_mla(layer) for layer in range(d.layers))
    kda, heads = d.layers - mla, d.heads // tp
    width = heads * d.head_dim
    return {
        "conv": draws.bell((kda, tp, slots, 3 * width, 3 if q == 1 else q + 2)).bfloat16(),
        "state": draws.bell((kda, tp, slots, heads, d.head_dim, d.head_dim), 0.25, torch.float32),
        "cache": draws.bell((mla, 1, pages, BLOCK, d.mla_row)).to(torch.float8_e4m3fn),
    }
