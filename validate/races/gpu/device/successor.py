"""A kernel that starts early and waits for what precedes it: it may then read what any kernel before that one wrote."""

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream

from validate.races.gpu.device.words import load, store

THREADS = 256


@cute.kernel
def kernel(target: cutlass.Int64, source: cutlass.Int64) -> None:
    """Copies a word a thread, after it has waited."""
    thread, _, _ = cute.arch.thread_idx()
    cute.arch.griddepcontrol_wait()
    store(target, thread, load(source, thread))


@cute.jit
def launch(target: cutlass.Int64, source: cutlass.Int64, stream: Any) -> None:
    """With the attribute by which vLLM's launches let a kernel start before its predecessor has ended."""
    kernel(target, source).launch(grid=(1, 1, 1), block=(THREADS, 1, 1), stream=stream, use_pdl=True)


def compiled() -> Any:
    """Called with target, source, stream."""
    return cute.compile(launch, cutlass.Int64(0), cutlass.Int64(0), make_fake_stream())
