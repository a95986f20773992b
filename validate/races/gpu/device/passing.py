"""A kernel that starts early, lets the next one start, waits for nothing and ends: a link that is missing in a chain of waits."""

from typing import Any

import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream


@cute.kernel
def kernel() -> None:
    """Nothing else."""
    cute.arch.griddepcontrol_launch_dependents()


@cute.jit
def launch(stream: Any) -> None:
    """With the attribute by which vLLM's launches let a kernel start before its predecessor has ended."""
    kernel().launch(grid=(1, 1, 1), block=(32, 1, 1), stream=stream, use_pdl=True)


def compiled() -> Any:
    """Called with stream."""
    return cute.compile(launch, make_fake_stream())
