"""What an adapter of a stage is: it turns a call into launches of vLLM's kernels."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from validate.model.call import Call
from validate.paths.vllm.source import Source


@dataclass(frozen=True)
class Needs:
    """The machine that kernels need: GPUs of at least this compute ``capability``, and so many ``ranks``, one a GPU.

    ``ranks`` None: all ranks of the case's TP group.
    """

    capability: tuple[int, int]
    ranks: int | None = 1

    def lacking(self, capability: tuple[int, int]) -> str | None:
        """Why a GPU of this capability does not do; None if it does."""
        if capability >= self.capability:
            return None
        wanted, there = (".".join(map(str, version)) for version in (self.capability, capability))
        return f"needs compute capability {wanted}, this GPU has {there}"


@dataclass(frozen=True)
class Prepared:
    """``launch`` runs the stage on the current stream, as often as it is called, with what the call's tensors then hold.

    ``mailboxes`` are the parts [slots, rows, width] of mailboxes that a launch polls: other ranks' writes, which may
    arrive after it began. Where this process plays the other ranks, they arrive from other streams; over real ranks they
    come from there, and ``arm`` brings all mailboxes of this rank into the state in which a step finds them. It is called
    before every launch, on all ranks, and none launches before all have called it. ``collect`` is called after the
    launches of all ranks have ended, and before the call's tensors are read: it writes into them what the launch left in
    mailboxes, and raises ``Broken`` where one is not as the protocol leaves it.
    """

    launch: Callable[[], None]
    mailboxes: tuple[Tensor, ...] = ()
    arm: Callable[[], None] | None = None
    collect: Callable[[], None] | None = None


class Part(Protocol):
    """Kernels of a stage, or of a part of it."""

    @property
    def step(self) -> tuple[str, ...]:
        """The inputs that differ from step to step; the others are weights."""

    def prepare(self, call: Call, source: Source) -> Prepared:
        """Compiles and binds what the step needs. The call's tensors are where they will be when it runs."""


Run = Callable[[Part, Call], None]  # runs a part of a stage on this process's GPU


class Adapter:
    """One path's kernels of one stage. What most stages have in common: SM90 or later, one rank, nothing to wait for."""

    needs = Needs(capability=(9, 0))
    launches_triton = False  # whether its kernels are Triton's: they take a driver even to be launched over meta tensors

    def missing(self, call: Call, source: Source) -> str | None:
        """Why they cannot run this call, in a few words; None if they can."""
        raise NotImplementedError

    def note(self, call: Call) -> str | None:
        """What of the stage is emulated, or which other kernel vLLM itself takes; None if it takes these, and no other."""
        return None


class Whole(Adapter):
    """Kernels of a whole stage: its only part."""

    step: tuple[str, ...]

    def prepare(self, call: Call, source: Source) -> Prepared:
        """As ``Part.prepare``; ``reference.<stage>.reference`` says what the tensors are."""
        raise NotImplementedError


class Composed(Adapter):
    """A stage of which vLLM's kernels run here in part: the rest, between and around them, is emulated."""

    def compose(self, call: Call, run: Run) -> None:
        """Fills the call's outputs and updates its buffers; ``run`` runs the parts."""
        raise NotImplementedError


class Group(Protocol):
    """The TP group that a case runs over: a process and a GPU each rank."""

    rank: int
    size: int
    process_group: Any  # torch.distributed's, over NCCL: vLLM's symmetric memory meets in it


class OverRanks(Adapter):
    """Kernels of a whole stage that the ranks of a TP group run together, and that write to each other's memory."""

    needs = Needs(capability=(10, 0), ranks=None)
    step: tuple[str, ...]

    def prepare(self, share: Call, source: Source, group: Group) -> Prepared:
        """As ``Part.prepare``, on each rank with its share of the call: ``ranks.share`` says what that is.

        All ranks allocate the same symmetric memory in the same order.
        """
        raise NotImplementedError


class Around:
    """Mixed into an emulated stage whose methods run vLLM's parts in the places of its own."""

    def __init__(self, run: Run) -> None:
        self._run = run


def fewer_rows(call: Call) -> str | None:
    """Why a call of more rows than its kernels were prepared for does not run; None for others."""
    return None if call.shape["regime"] >= call.shape["batch"] else "a kernel runs no more rows than it is prepared for"


def other_rows(call: Call) -> str | None:
    """Why a call of other rows than its kernels were prepared for does not run; None for those."""
    return None if call.shape["regime"] == call.shape["batch"] else "a kernel is compiled for the rows that it runs"
