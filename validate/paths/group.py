"""The processes that torchrun started, as one group: which of them this one is, and how they hear of each other."""

import os
import time
import uuid
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import cache
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from validate.errors import InputError
from validate.paths import Broken, Lost

JUDGING = timedelta(minutes=30)  # that a rank waits for another at most: for the one that judges, mostly
MEETING = timedelta(minutes=5)  # the same while all prepare a stage, which takes seconds
# The same for a rank on which something went wrong. The others may wait for it where it can not say so, in a collective of
# vLLM's own: so it ends before they do (MEETING), and torchrun ends them with it.
FAILED = timedelta(minutes=2)
REFUSED = "refused"  # in torchrun's store, which outlives the processes: why it is of no use to start them again
SET_BY_TORCHRUN = ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")

T = TypeVar("T")


class Parted(Exception):
    """Another rank's process has ended or does not answer: there is nothing more to do together."""


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
    NCCL refuses. ``restarted``: whether torchrun has started them again, after one of them ended. ``refused``: why those
    that were started before them were refused.

    Whatever the ranks tell each other goes by one kind of exchange, which carries an error, too: so a rank that fails
    anywhere meets the others at the next one, wherever they are. Where they do not come, it ends: Parted.
    """

    def __init__(self) -> None:
        lacking = [name for name in SET_BY_TORCHRUN if name not in os.environ]
        if lacking:
            raise InputError(f"WORLD_SIZE is set, but not {', '.join(lacking)}: start it by torchrun, or without WORLD_SIZE")
        gpus = torch.cuda.device_count()
        backend = "cpu:gloo,cuda:nccl" if 0 < int(os.environ["LOCAL_WORLD_SIZE"]) <= gpus else "gloo"
        if gpus:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % gpus)
        try:
            self._store, rank, ranks = next(rendezvous("env://", timeout=MEETING))
            met = _met(self._store, rank, ranks)
            dist.init_process_group(backend, timeout=MEETING, store=met, rank=rank, world_size=ranks)
            self._host = dist.new_group(backend="gloo", timeout=JUDGING)
        except RuntimeError as error:
            raise Parted(f"the ranks do not meet: {_line(error)}") from error
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.process_group: Any = dist.group.WORLD
        self._shared: Exception | None = None  # what the last exchange raised, on every rank
        # A node whose own processes went on until the others stopped them counts no restart.
        self.restarted = any(self._exchange(int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))))
        self.refused = self._store.get(REFUSED).decode() if self._store.check([REFUSED]) else None

    def refuse(self, why: str) -> None:
        """Leaves word for the processes that torchrun starts in these ones' place: it does so whatever they end by."""
        self._store.set(REFUSED, why)

    def together(self, what: Callable[[], T]) -> T:
        """Does something on every rank. What goes wrong on one goes wrong on all, so that none waits for another."""
        try:
            result = what()
        except Parted:
            raise
        except Exception as error:
            if error is not self._shared:
                self._exchange(None, error)
            raise
        self._exchange(None)
        return result

    def gather(self, own: T) -> list[T]:
        """What every rank gives, in their order. Tensors must be on the CPU."""
        return self._exchange(own)

    def tell(self, what: Any = None) -> Any:
        """What rank 0 says to all, itself included."""
        return self._exchange(what if self.rank == 0 else None)[0]

    def _exchange(self, own: Any, problem: Exception | None = None) -> list[Any]:
        every: list[Any] = [None] * self.size
        try:
            dist.barrier(self._host, async_op=True).wait(FAILED if problem else JUDGING)
            dist.all_gather_object(every, (own, _portable(problem)), self._host)
        except RuntimeError as error:
            own_problem = f"{_portable(problem)}; and " if problem else ""
            raise Parted(f"{own_problem}another rank's process has ended or does not answer: {_line(error)}") from error
        self._shared = combined([there for _, there in every])
        if self._shared is not None:
            raise self._shared from problem
        return [one for one, _ in every]


def _met(store: Store, rank: int, ranks: int) -> PrefixStore:
    """A part of torchrun's store that these processes alone use.

    It outlives them, and those that are started again must not read what the first ones left. Nothing that torchrun says
    tells the starts apart on all nodes. So rank 0 names a part, and it counts once rank 0 has seen who came to it.
    """
    own, end = uuid.uuid4().hex, time.monotonic() + MEETING.total_seconds()
    if rank == 0:
        names = [f"{own}/{other}" for other in range(1, ranks)]
        store.set("leader", own)
        store.wait(names, MEETING)
        store.set(f"{own}/all", " ".join(store.get(name).decode() for name in names))
        return PrefixStore(own, store)
    while time.monotonic() < end:
        leader = store.get("leader").decode()
        store.set(f"{leader}/{rank}", own)
        if store.check([f"{leader}/all"]) and own in store.get(f"{leader}/all").decode().split():
            return PrefixStore(leader, store)
        time.sleep(0.1)
    raise RuntimeError(f"rank 0 has not come within {MEETING}")


def combined(problems: Sequence[Exception | None]) -> Exception | None:
    """One exception that says what went wrong on which rank, as bad as the worst; None if nothing did."""
    found = [(rank, problem) for rank, problem in enumerate(problems) if problem is not None]
    if not found:
        return None
    said = "; ".join(f"rank {rank}: {problem}" for rank, problem in found)
    if len({str(problem) for problem in problems}) == 1:
        said = f"every rank: {problems[0]}"
    lost = [problem for _, problem in found if isinstance(problem, Lost)]
    others = [problem for _, problem in found if not isinstance(problem, Broken)]
    if lost:
        return Lost(sum(one.count for one in lost), said)
    if others:
        return (InputError if all(isinstance(one, InputError) for one in others) else RuntimeError)(said)
    broken = [problem for _, problem in found if isinstance(problem, Broken)]
    return Broken(broken[0].tensor, broken[0].check, sum(one.count for one in broken), said)


def _portable(problem: Exception | None) -> Exception | None:
    """What can be sent of it: of errors that torch or vLLM raise, the words."""
    if problem is None or isinstance(problem, (Broken, InputError)):
        return problem
    return RuntimeError(f"{type(problem).__name__}: {problem}")


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
