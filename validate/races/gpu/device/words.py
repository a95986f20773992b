"""Time and 32-bit words of memory, as the other kernels here use them."""

from typing import Any

import cutlass
import cutlass.cute as cute


@cute.jit
def spin(nanoseconds: cutlass.Int64) -> None:
    """Waits so long by the GPU's own clock (``%globaltimer``, which ticks in steps of about a microsecond)."""
    end = cute.arch.globaltimer() + nanoseconds
    while cute.arch.globaltimer() < end:
        pass


def word(address: cutlass.Int64, index: Any) -> Any:
    """Where the word of that index lies, from an address."""
    return cute.make_ptr(cutlass.Uint32, address + cutlass.Int64(index) * 4, cute.AddressSpace.gmem, assumed_align=4)


def load(address: cutlass.Int64, index: Any) -> Any:
    """A word, from the L2: another kernel has just written it."""
    return cute.arch.load(word(address, index), cutlass.Uint32, sem="relaxed", scope="sys")


def store(address: cutlass.Int64, index: Any, value: Any) -> None:
    """A word, as a rank stores to another's mailbox: relaxed, for the whole system."""
    cute.arch.store(word(address, index), value, sem="relaxed", scope="sys")
