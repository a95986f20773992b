"""The GEMM for a few rows that both paths use: scalar FMAs, K over the threads of a block.

Restates vLLM 0.33.0, model_executor/kernels/linear/cute_dsl/_skinny_gemm.py. A thread takes eight neighbouring columns
of each tile of ``threads * 8``.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from validate.paths.emulated.arithmetic import chain_sum, tree_sum

VECTOR = 8
LANES = 32


def thread_sums(x: Tensor, weight: Tensor, threads: int, tiles: Iterable[int]) -> Tensor:
    """fp32 [rows, n, warps, lanes]: each thread's columns, tile after tile, added in order. x [m, k], weight [n, k]."""
    a, b = (t.float().unflatten(1, (-1, threads, VECTOR)) for t in (x, weight))
    total = torch.zeros(x.shape[0], weight.shape[0], threads)
    for n in tiles:
        for e in range(VECTOR):
            total += a[:, None, n, :, e] * b[None, :, n, :, e]  # exact products: an FMA
    return total.unflatten(-1, (-1, LANES))


def block_sums(partial: Tensor) -> Tensor:
    """fp32 [rows, n]: a butterfly over the lanes, then the warps in order."""
    return chain_sum(tree_sum(partial).movedim(-1, 0))
