"""Lamport mailboxes: bf16 rows whose data is the flag.

A row's slot is armed with the sentinel word; its reader waits until no 32-bit word of a 16-byte fragment is the
sentinel, and arms the slot again. So no payload may hold that word: writers turn -0 into +0. Read from vLLM 0.33.0,
specialized_decode/cutedsl/common/mailbox.py and primitives.py (``pack_pair`` with the "latent" policy, ``published``).
"""

import torch
from torch import Tensor

SENTINEL = -0x80000000  # 0x80000000 as int32: the bf16 pair (+0, -0)
FRAGMENT = 8  # bf16 that are loaded and checked together (16 bytes)


def arm(*slots: Tensor) -> None:
    """Fills mailboxes, of bf16 or of words, with the sentinel."""
    for one in slots:
        one.view(torch.int32).fill_(SENTINEL)


def armed(shape: tuple[int, ...]) -> Tensor:
    """A bf16 mailbox that nobody has written to."""
    slots = torch.empty(shape, dtype=torch.bfloat16)
    arm(slots)
    return slots


def fold(values: Tensor) -> Tensor:
    """bf16 ``values`` with +0 for every -0."""
    return torch.where(values == 0, torch.zeros_like(values), values)


def poll(slots: Tensor, waiting: Tensor | None = None) -> Tensor:
    """fp32 payload of bf16 ``slots``. Where a real reader would wait for ever, NaN: a fragment that holds the sentinel.

    ``waiting`` replaces the comparison: bool, one entry a 32-bit word.
    """
    if waiting is None:
        waiting = slots.view(torch.int32) == SENTINEL
    if not bool(waiting.any()):
        return slots.float()
    stuck = waiting.unflatten(-1, (-1, FRAGMENT // 2)).any(-1).repeat_interleave(FRAGMENT, -1)
    return slots.float().masked_fill(stuck, torch.nan)
