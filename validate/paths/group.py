"""The processes that torchrun started, as one group: which of them this one is, and how they hear of each other."""

import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import cache
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import PrefixStore  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from validate.paths import Broken, Lost

JUDGING = timedelta(minutes=30)  # that a rank waits for another at most: for the one that judges, mostly
MEETING = timedelta(minutes=5)  # the same while all prepare a stage, which takes seconds

T = TypeVar("T")


@cache
def current() -> "Group | None":
    """This process's group, joined at the first call; None if it was started alone."""
    return Group() if size() > 1 else None


def size() -> int:
    """How many processes torchrun started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


class Group:
    """A TP group of ``size`` processes, one a GPU, of which this one is ``rank``.

    ``process_group`` is what vLLM's symmetric memory meets in: over NCCL, except where several processes share a GPU, which
    NCCL refuses.
    """

    def __init__(self) -> None:
        gpus = torch.cuda.device_count()
        backend = "cpu:gloo,cuda:nccl" if 0 < int(os.environ["LOCAL_WORLD_SIZE"]) <= gpus else "gloo"
        if gpus:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % gpus)
        # torchrun's store outlives its processes: those that are started again must not read what the first ones left.
        store, rank, ranks = next(rendezvous("env://", timeout=MEETING))
        store = PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)
        dist.init_process_group(backend, timeout=MEETING, store=store, rank=rank, world_size=ranks)
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.process_group: Any = dist.group.WORLD
        self._host = dist.new_group(backend="gloo", timeout=JUDGING)

    def together(self, what: Callable[[], T]) -> T:
        """Does something on every rank. What goes wrong on one goes wrong on all, so that none waits for another."""
        problem: Exception | None = None
        try:
            result = what()
        except Exception as error:
            problem = error
        every: list[Exception | None] = [None] * self.size
        portable = (
            problem if problem is None or isinstance(problem, Broken) else RuntimeError(f"{type(problem).__name__}: {problem}")
        )
        dist.all_gather_object(every, portable, self._host)
        common = combined(every)
        if common is not None:
            raise common from problem
        return result

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """Every rank's tensor of this shape, in their order; on the CPU."""
        own = tensor.cpu().contiguous().view(torch.uint8)
        every = [torch.empty_like(own) for _ in range(self.size)]
        dist.all_gather(every, own, self._host)
        return [one.view(tensor.dtype).view(tensor.shape) for one in every]

    def tell(self, what: Any = None) -> Any:
        """What rank 0 says to all, itself included."""
        told = [what]
        dist.broadcast_object_list(told, 0, self._host)
        return told[0]


def combined(problems: Sequence[Exception | None]) -> Exception | None:
    """One exception that says what went wrong on which rank, as bad as the worst; None if nothing did."""
    found = [(rank, problem) for rank, problem in enumerate(problems) if problem is not None]
    if not found:
        return None
    said = "; ".join(f"rank {rank}: {problem}" for rank, problem in found)
    lost = [problem for _, problem in found if isinstance(problem, Lost)]
    others = [problem for _, problem in found if not isinstance(problem, Broken)]
    if lost:
        return Lost(sum(one.count for one in lost), said)
    if others:
        return RuntimeError(said)
    broken = [problem for _, problem in found if isinstance(problem, Broken)]
    return Broken(broken[0].tensor, broken[0].check, sum(one.count for one in broken), said)
