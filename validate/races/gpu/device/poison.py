"""Fills the shared memory of all multiprocessors with NaN, which the next kernel finds there."""

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream

from validate.races.gpu.device.hog import SHARED, THREADS
from validate.races.gpu.device.words import spin

POISON = 0xFFFFFFFF  # NaN as fp32, as a bf16 pair and as E4M3
LONG = 5_000  # ns that a block keeps its multiprocessor, so that no two of a grid get the same one


@cute.kernel
def kernel() -> None:
    """One block fills one multiprocessor's."""
    shared = cutlass.utils.SmemAllocator().allocate_tensor(cutlass.Uint32, cute.make_layout(SHARED // 4), 16)
    thread, _, _ = cute.arch.thread_idx()
    for i in range(thread, SHARED // 4, THREADS):
        shared[i] = cutlass.Uint32(POISON)
    spin(cutlass.Int64(LONG))


@cute.jit
def launch(blocks: cutlass.Int32, stream: Any) -> None:
    """As many blocks as there are multiprocessors."""
    kernel().launch(grid=(blocks, 1, 1), block=(THREADS, 1, 1), stream=stream)


def compiled() -> Any:
    """Called with blocks, stream."""
    return cute.compile(launch, cutlass.Int32(1), make_fake_stream())
