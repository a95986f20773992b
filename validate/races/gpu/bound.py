"""A kernel of vLLM's, bound to the memory of its launches, and what that memory holds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from validate.paths.emulated.mailbox import SENTINEL

ALIGNED = 256  # bytes: what a CUDA allocation begins at
POISON = -1  # as int32: NaN in every format that the kernels write
Shape = tuple[tuple[int, ...], torch.dtype]


@dataclass(frozen=True)
class Bound:
    """``launch`` launches one kernel of vLLM's on the current stream, and nothing else.

    ``late``: int32 [words], all that it reads only after waiting for its predecessor; None if nothing. ``mailbox``: bf16
    [slots, rows, width] of which it polls the first ``rows``; None if it polls none. ``written``: what it writes, by name.
    ``refresh`` draws new values by a seed, in place: late inputs, the mailbox's payload, state; outputs become poison.
    """

    launch: Callable[[], object]
    written: Mapping[str, Tensor]
    refresh: Callable[[int], None]
    late: Tensor | None = None
    mailbox: Tensor | None = None
    rows: int = 0

    def words(self) -> Tensor:
        """int32 [slots, rows, words of a row]: which of the mailbox's words a payload fills."""
        assert self.mailbox is not None
        slots, capacity, width = self.mailbox.shape
        index = torch.arange(slots * capacity * width // 2, dtype=torch.int32, device=self.mailbox.device)
        return index.view(slots, capacity, width // 2)[:, : self.rows]


@dataclass(frozen=True)
class Contents:
    """What the memory of one launch holds when it begins; ``mailbox`` what the other ranks store."""

    late: Tensor | None
    mailbox: Tensor | None
    written: Mapping[str, Tensor]


def contents(of: Bound, seed: int) -> Contents:
    """New values, which differ by seed and are the same for equal kernels."""
    of.refresh(seed)
    late, mailbox = (None if tensor is None else tensor.clone() for tensor in (of.late, of.mailbox))
    return Contents(late, mailbox, {name: tensor.clone() for name, tensor in of.written.items()})


def region(device: torch.device, shapes: Sequence[Shape]) -> tuple[Tensor, list[Tensor]]:
    """Tensors of these shapes that lie in one allocation, and that allocation as int32 words: one kernel can write them all."""
    starts, end = [], 0
    for shape, dtype in shapes:
        starts.append(end)
        size = torch.empty(shape, dtype=dtype, device="meta").nbytes
        end += -(-size // ALIGNED) * ALIGNED
    words = torch.zeros(end // 4, dtype=torch.int32, device=device)
    bytes_ = words.view(torch.uint8)
    parts = []
    for start, (shape, dtype) in zip(starts, shapes, strict=True):
        size = torch.empty(shape, dtype=dtype, device="meta").nbytes
        parts.append(bytes_[start : start + size].view(dtype).view(shape))
    return words, parts


def draw(seed: int, *tensors: Tensor, scale: float = 1.0) -> None:
    """Fills floating-point tensors with normal values."""
    for number, tensor in enumerate(tensors):
        if not tensor.is_meta:
            tensor.normal_(0.0, scale, generator=torch.Generator(tensor.device).manual_seed(1000 * seed + number))


def weight(device: torch.device, seed: int, *shape: int, scale: float = 1.0, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """A weight of normal values, the same at every call."""
    made = torch.empty(shape, dtype=dtype, device=device)
    draw(900 + seed, made, scale=scale)
    return made


def poison(*tensors: Tensor) -> None:
    """Fills what no kernel has written yet."""
    for tensor in tensors:
        tensor.view(torch.uint8).fill_(POISON & 0xFF)


def unarmed(mailbox: Tensor) -> int:
    """How many 32-bit words of it do not hold the sentinel."""
    return int((mailbox.view(torch.int32) != SENTINEL).sum())
