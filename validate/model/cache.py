"""Paged attention caches as a running server leaves them: pages in any order, recycled, and full of old data.

A fresh cache hides bugs: its pages are in order, so a kernel that ignores the block table is right, and it is zero
beyond the live rows, so a kernel that reads one row too many is right, too. Nothing here computes; it only places rows.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from validate.model.draws import Draws

NULL_PAGE = 0  # vLLM's null block: block tables are padded with it, and no request owns it
OLD_GAIN = 8.0  # what earlier requests left behind exceeds the live rows so many times


@dataclass(frozen=True)
class PagedCache:
    """``pages`` [shards, pages, block, width]; ``table`` int32 [requests, pages of the longest request] of page ids.

    ``slots`` int64 [shards, rows]: where each new row goes, page * block + offset; -1: not on this shard, or padding.
    ``lengths`` int32 [shards, requests]: rows of each request on a shard, the new ones included.
    """

    pages: Tensor
    table: Tensor
    slots: Tensor
    lengths: Tensor


def paged_cache(
    draws: Draws,
    totals: Tensor,
    new: int,
    block: int,
    width: int,
    dtype: torch.dtype,
    shards: int = 1,
    interleave: int = 1,
    std: float = 1.0,
    nan: bool = False,
) -> PagedCache:
    """A cache that holds ``totals[b] - new`` rows of each request (0: a padded one) and has room for its new rows.

    Live rows have the standard deviation ``std``, as stored.

    Position p of a request lies on shard p // interleave % shards, as row p // (interleave * shards) * interleave
    + p % interleave of that shard (vLLM 0.33.0, v1/attention/backends/utils.py get_dcp_local_seq_lens). All shards
    share the block table. What no live row fills - the null page, free pages, tails of pages and the rows to be
    written - holds old data, or NaN if ``nan``.
    """
    requests = totals.numel()
    local = torch.tensor([[_rows(int(total), shard, shards, interleave) for total in totals] for shard in range(shards)])
    per_request = [max(1, -(-int(local[:, b].max()) // block)) for b in range(requests)]
    owned = sum(per_request)
    pool = 1 + owned + 2  # the null page, and two free ones
    order = (draws.permutation(pool - 1) + 1).tolist()
    table = torch.full((requests, max(per_request)), NULL_PAGE, dtype=torch.int32)
    for b in range(requests):
        if totals[b] > 0:
            table[b, : per_request[b]] = torch.tensor([order.pop() for _ in range(per_request[b])])
    pages = torch.empty((shards, pool, block, width), dtype=dtype)
    if nan:
        pages.view(torch.uint8 if dtype.itemsize == 1 else torch.int16).fill_(0x7F if dtype.itemsize == 1 else 0x7FC0)
    else:
        old = draws.bell((min(pool, 4), block, width), OLD_GAIN * std, torch.float32).to(
            dtype
        )  # repeats: it is only there to show
        pages.copy_(old.repeat(-(-pool // len(old)), 1, 1)[:pool].expand(shards, -1, -1, -1))
    slots = torch.full((shards, requests * new), -1, dtype=torch.int64)
    for b in range(requests):
        total = int(totals[b])
        if total == 0:
            continue
        shard, slot = _places(torch.arange(total), table[b], block, shards, interleave)
        fresh = torch.arange(total - new, total)
        slots[shard[fresh], torch.arange(b * new, (b + 1) * new)] = slot[fresh]
        kept = total - new
        rows = draws.bell((kept, width), std, torch.float32).to(dtype)
        pages[shard[:kept], slot[:kept] // block, slot[:kept] % block] = rows
    return PagedCache(pages, table, slots, local.int())


def _rows(total: int, shard: int, shards: int, interleave: int) -> int:
    """How many of the positions below ``total`` lie on ``shard``."""
    cycles, rest = divmod(total, interleave * shards)
    return cycles * interleave + min(max(rest - shard * interleave, 0), interleave)


def _places(positions: Tensor, pages: Tensor, block: int, shards: int, interleave: int) -> tuple[Tensor, Tensor]:
    """Shard and slot of each position of a request whose block table is ``pages``."""
    row = positions // (interleave * shards) * interleave + positions % interleave
    return positions // interleave % shards, pages[row // block].long() * block + row % block
