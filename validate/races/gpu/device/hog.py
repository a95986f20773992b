"""Takes multiprocessors: each block has nearly all of one's shared memory, and keeps it for a given time."""

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream

from validate.races.gpu.device.words import load, spin

THREADS = 1024
SHARED = 224 * 1024  # bytes of a block: of the 227 KB that compute capability 9.0 allows one (CUDA Programming Guide)


@cute.kernel
def kernel(nanoseconds: cutlass.Int64) -> None:
    """``nanoseconds``: a word a block."""
    shared = cutlass.utils.SmemAllocator().allocate_tensor(cutlass.Uint32, cute.make_layout(SHARED // 4), 16)
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    shared[thread] = cutlass.Uint32(0)
    spin(cutlass.Int64(load(nanoseconds, block)))


@cute.jit
def launch(nanoseconds: cutlass.Int64, blocks: cutlass.Int32, stream: Any) -> None:
    """One block a multiprocessor."""
    kernel(nanoseconds).launch(grid=(blocks, 1, 1), block=(THREADS, 1, 1), stream=stream)


def compiled() -> Any:
    """Called with nanoseconds, blocks, stream."""
    return cute.compile(launch, cutlass.Int64(0), cutlass.Int32(1), make_fake_stream())
