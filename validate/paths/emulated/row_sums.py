"""Sums over a hidden row in the order of each kernel's threads, warps and blocks, fp32.

A thread holds eight neighbouring columns at a time (16 bytes of bf16), a warp 256. Every function sums elementwise
products ``x * y`` over the last dimension.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from validate.paths.emulated.arithmetic import chain_sum, fma, tree_sum

Dot = Callable[[Tensor, Tensor], Tensor]

LANES = 32
VECTOR = 8
WARPS_PER_BLOCK = 4


def fma_chain(x: Tensor, y: Tensor) -> Tensor:
    """[...]: products of the last dimension, added by one chain of FMAs (attn_res/kernel.py ``dot8``)."""
    total = torch.zeros(x.shape[:-1])
    for e in range(x.shape[-1]):
        total = fma(x[..., e], y[..., e], total)
    return total


def paired_chains(x: Tensor, y: Tensor) -> Tensor:
    """[...]: eight products by paired fp32 instructions: columns 0 and 4, 1 and 5, 2 and 6, 3 and 7 share a chain.

    Then 0 and 2, 1 and 3, and these two (oproj/consumer.py ``dot8``).
    """
    first = x[..., :4] * y[..., :4]
    return tree_sum(fma(x[..., 4:], y[..., 4:], first))


def warp_sums(x: Tensor, y: Tensor, dot: Dot = fma_chain) -> Tensor:
    """[..., blocks, warps]: each thread's eight products, then a butterfly over the warp."""
    warps = x.shape[-1] // (LANES * VECTOR)
    per_block = min(warps, WARPS_PER_BLOCK)
    threads = (-1, per_block, LANES, VECTOR)
    return tree_sum(dot(x.unflatten(-1, threads), y.unflatten(-1, threads)))


def pairs(warps: Tensor) -> Tensor:
    """[...]: four warps (last dimension) as (0 + 1) + (2 + 3)."""
    while warps.shape[-1] > 1:
        warps = warps[..., 0::2] + warps[..., 1::2]
    return warps[..., 0]


def even_and_odd(blocks: Tensor) -> Tensor:
    """[...]: the cluster's blocks (last dimension): the even ones in order, the odd ones in order, then both."""
    even = chain_sum(blocks[..., 0::2].movedim(-1, 0))
    if blocks.shape[-1] == 1:
        return even
    return even + chain_sum(blocks[..., 1::2].movedim(-1, 0))


def cluster(x: Tensor, y: Tensor) -> Tensor:
    """[...]: a row over a cluster of seven blocks of four warps (attn_res/kernel.py ``exchange``)."""
    return even_and_odd(pairs(warp_sums(x, y)))


def triton(x: Tensor, y: Tensor, warps: int) -> Tensor:
    """[...]: a row padded to a power of two in one block of ``warps``, as Triton lays it out.

    A thread adds up its columns in order, then the lanes by a butterfly, then the warps by another.
    """
    terms = x * y
    width = max(1 << (terms.shape[-1] - 1).bit_length(), warps * LANES * VECTOR)
    padded = torch.nn.functional.pad(terms, (0, width - terms.shape[-1]))
    by_thread = padded.unflatten(-1, (-1, warps, LANES, VECTOR)).movedim((-4, -1), (0, 1)).flatten(0, 1)
    return tree_sum(tree_sum(chain_sum(by_thread)))


def one_vector_each(x: Tensor, y: Tensor) -> Tensor:
    """[...]: a row in one block of 1024 threads, a vector each, whose warps are added in order."""
    return chain_sum(warp_sums(x, y).flatten(-2).movedim(-1, 0))
