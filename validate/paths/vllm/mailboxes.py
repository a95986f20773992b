"""Mailboxes over the ranks of a group, in symmetric memory: vLLM's own, allocated once a process, as a deployment does.

A rank's mailbox is memory of its own that all ranks write to: by multicast, by peer stores, or here by copies.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from validate.paths import Broken
from validate.paths.emulated.mailbox import SENTINEL
from validate.paths.vllm.adapter import Group
from validate.paths.vllm.entries import imported
from validate.paths.vllm.source import Source


def allocated(source: Source, file: str, name: str, group: Group, device: torch.device) -> Any:
    """The mailbox class ``name`` of one of vLLM's files, bound to a group as SpecializedDecode.build_providers does it."""
    return _allocated(source, file, name, group.process_group, device, group.size, group.rank)


@cache
def _allocated(source: Source, file: str, name: str, group: Any, device: torch.device, ranks: int, rank: int) -> Any:
    return imported(source, file, name)(group, device, ranks, rank)


def of_all_ranks(mine: Tensor, group: Group) -> list[Tensor]:
    """Each rank's tensor of the same symmetric allocation: stores to it go to that rank's memory."""
    import torch.distributed._symmetric_memory as symmetric

    handle = symmetric.rendezvous(mine, group.process_group)  # vLLM's own, which torch keeps by allocation and group
    return [handle.get_buffer(rank, mine.shape, mine.dtype) for rank in range(group.size)]


def check_armed(name: str, *boxes: Tensor, sentinel: int = SENTINEL) -> None:
    """Broken if a 32-bit word of these, which are called ``name``, is not armed with ``sentinel``."""
    left = sum(int((box.view(torch.int32) != sentinel).sum()) for box in boxes)
    if left:
        raise Broken("mailbox", "complete", left, f"{left} words of {name} are not armed again")
