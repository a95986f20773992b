"""What an adversary is: it launches the kernel once, with all that is to happen around it."""

from typing import Any

import torch

from validate.races.gpu.bench import Bench
from validate.races.gpu.bound import Bound, Contents


def stream(of: torch.cuda.Stream) -> Any:
    """A stream as the suite's own kernels take it."""
    from cuda.bindings.driver import CUstream

    return CUstream(of.cuda_stream)


class Adversary:
    """Of one kernel. Its own kernels are compiled, and launched once, when it is made: to load one waits for a kernel that polls.

    ``delivers``: it fills the mailbox itself, which is armed when it begins. ``writes_late``: it writes the late inputs itself,
    which hold another call's when it begins.
    """

    delivers = False
    writes_late = False

    def __init__(self, bench: Bench, bound: Bound) -> None:
        self.bench, self.bound = bench, bound

    def run(self, contents: Contents, repeat: int) -> None:
        """Launches everything, and waits for nothing."""
        raise NotImplementedError

    def shut(self) -> str | None:
        """Why no kernel could be wrong under it on this GPU; None if one could. Launches what it needs to find that out."""
        return None

    def seen(self) -> str | None:
        """What it saw go wrong itself, once all has ended."""
        return None


class Undisturbed(Adversary):
    """The kernel alone, with everything there: what the others are held against."""

    def run(self, contents: Contents, repeat: int) -> None:
        """Nothing but the launch."""
        self.bound.launch()
