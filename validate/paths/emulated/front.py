"""The specialized path's MoE front: the GEMM behind its router logits and latent shard, in the order of each regime.

Restates the geometry of vLLM 0.33.0: specialized_decode/cutedsl/moe/front.py (``FRONT``, ``MERGED``), gemm/ws_gemm.py,
moe/shared.py (``SharedUmma`` with front rows) and moe/small_batch/front_tp8.py, front_tp16.py (``gemv``).
"""

from itertools import pairwise

import torch
from torch import Tensor

from validate.paths.emulated.arithmetic import chain_sum, gemm, tree_sum

BLOCK = 32  # products along K that one pair of MMAs covers


def uses_small_batch(tp: int, regime: int) -> bool:
    """Whether the chain of small-batch kernels serves this many rows (small_batch/chain.py ``batches``)."""
    return regime <= {8: 1, 16: 2}.get(tp, 0)


def merged(tp: int, regime: int) -> int:
    """K split of the kernel that computes the front beside the shared expert; 0 where the front has its own kernel."""
    if (tp == 8 and 41 <= regime <= 64) or (tp == 16 and 33 <= regime <= 64):
        return 4 if tp == 8 else 6
    return 0


def geometry(tp: int, regime: int) -> tuple[int, int]:
    """(parts of K, accumulator chains a part) of the front's own GEMM."""
    if uses_small_batch(tp, regime):
        return 16, 8
    if tp in (8, 16) and regime >= 5:
        return (16 if tp == 8 and regime > 32 else 32), 2
    return 16, 4


def front_gemm(x: Tensor, weight: Tensor, tp: int, regime: int) -> Tensor:
    """fp32 [rows, n]: ``x @ weight.T`` of one rank's router or latent rows."""
    split = merged(tp, regime)
    blocks = x.shape[1] // 64
    if split:
        bounds = [64 * (blocks * r // split) for r in range(split + 1)]
        parts = [gemm(x[:, a:b], weight[:, a:b]) for a, b in pairwise(bounds)]
        return chain_sum(torch.stack(parts))
    count, chains = geometry(tp, regime)
    width = x.shape[1] // count
    sums = []
    for start in range(0, x.shape[1], width):
        partial = _chains(x[:, start : start + width], weight[:, start : start + width], chains)
        # The small-batch fronts add their chains in pairs, the others one after the other.
        sums.append(tree_pairs(partial) if uses_small_batch(tp, regime) else chain_sum(partial))
    return chain_sum(torch.stack(sums))


def tree_pairs(values: Tensor) -> Tensor:
    """Sum over the first dimension (a power of two): neighbours first, then neighbouring pairs."""
    while values.shape[0] > 1:
        values = values[0::2] + values[1::2]
    return values[0]


def _chains(x: Tensor, weight: Tensor, chains: int) -> Tensor:
    """fp32 [chains, rows, n]: MMA m goes to chain m modulo ``chains``.

    An MMA takes four elements of each quarter of a 32-wide block: lane quarter q loads elements 8 q ... 8 q + 7 at
    once, and the block's first MMA takes the lower four of them.
    """
    columns = torch.arange(x.shape[1]).view(-1, 4, 2, 4).transpose(1, 2).reshape(-1, 16)
    found = []
    for chain in range(chains):
        mine = columns[chain::chains].flatten()
        found.append(gemm(x[:, mine], weight[:, mine]))
    return torch.stack(found)


def lane_dot(x: Tensor, weight: Tensor, regime: int) -> Tensor:
    """fp32 [rows, n]: the latent rows of the small-batch fronts, scalar FMAs of 16 elements a lane, then two sums.

    One row: warp w's lane l takes the chunks of eight 56 w + l and 56 w + 28 + l, odd elements of a pair first. Two
    rows (TP16): seven warps, chunks 32 w + l + 224 c, c = 0 ... 3, even elements first.
    """
    chunks = torch.arange(896)
    chunks = chunks.view(16, 2, 28) if regime == 1 else chunks.view(4, 7, 32).transpose(0, 1)
    warps, count, lanes = chunks.shape
    order = (chunks[..., None] * 8 + torch.arange(8)).transpose(2, 3).reshape(warps, count * 4, 2, lanes)
    order = (order.flip(2) if regime == 1 else order).reshape(warps, count * 8, lanes)
    sums = []
    for row in x.float():
        total = torch.zeros(weight.shape[0], warps, lanes)
        for step in order.unbind(1):
            # bf16 products are exact in fp32, so the product's own rounding is none: an fma.
            total = total + row[step] * weight[:, step.flatten()].float().view(-1, warps, lanes)
        padded = torch.nn.functional.pad(total, (0, 32 - lanes))
        sums.append(chain_sum(tree_sum(padded).T))
    return torch.stack(sums)
