"""A kernel that lets its dependents start at once, and writes only later what they must read after waiting for it."""

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream

from validate.races.gpu.device.words import load, spin, store

THREADS, BLOCKS = 256, 16


@cute.kernel
def kernel(target: cutlass.Int64, source: cutlass.Int64, count: cutlass.Int32, nanoseconds: cutlass.Int64) -> None:
    """Copies ``count`` words, so long after it has begun."""
    cute.arch.griddepcontrol_launch_dependents()
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    spin(nanoseconds)
    index = block * THREADS + thread
    while index < count:
        store(target, index, load(source, index))
        index += BLOCKS * THREADS


@cute.jit
def launch(target: cutlass.Int64, source: cutlass.Int64, count: cutlass.Int32, nanoseconds: cutlass.Int64, stream: Any) -> None:
    """An ordinary launch: what follows it in its stream may ask to start early."""
    kernel(target, source, count, nanoseconds).launch(grid=(BLOCKS, 1, 1), block=(THREADS, 1, 1), stream=stream)


def compiled() -> Any:
    """Called with target, source, count, nanoseconds, stream."""
    address = cutlass.Int64(0)
    return cute.compile(launch, address, address, cutlass.Int32(1), address, make_fake_stream())
