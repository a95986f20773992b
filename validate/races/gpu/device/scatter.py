"""Stores a payload word by word, in a given order and with given pauses: what other ranks' stores may look like at worst."""

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream

from validate.races.gpu.device.words import load, spin, store

THREADS = 256


@cute.kernel
def kernel(
    target: cutlass.Int64, payload: cutlass.Int64, order: cutlass.Int64, pauses: cutlass.Int64, count: cutlass.Int32
) -> None:
    """Each thread takes every so many entries of the order. ``order``: words of the target and the payload; ``pauses``: ns."""
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    blocks, _, _ = cute.arch.grid_dim()
    entry = block * THREADS + thread
    while entry < count:
        index = load(order, entry)
        value = load(payload, index)
        spin(cutlass.Int64(load(pauses, entry)))
        store(target, index, value)
        entry += blocks * THREADS


@cute.jit
def launch(
    target: cutlass.Int64,
    payload: cutlass.Int64,
    order: cutlass.Int64,
    pauses: cutlass.Int64,
    count: cutlass.Int32,
    blocks: cutlass.Int32,
    stream: Any,
) -> None:
    """On a grid of ``blocks``."""
    kernel(target, payload, order, pauses, count).launch(grid=(blocks, 1, 1), block=(THREADS, 1, 1), stream=stream)


def compiled() -> Any:
    """Called with target, payload, order, pauses, count, blocks, stream."""
    address, number = cutlass.Int64(0), cutlass.Int32(1)
    return cute.compile(launch, address, address, address, address, number, number, make_fake_stream())
