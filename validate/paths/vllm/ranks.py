"""What of a call is one rank's, and how the ranks' results become one call again."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor

from validate.model.call import Call
from validate.numerics.footprint import PARTS


def share(call: Call, rank: int) -> Call:
    """One rank's part: of the tensors that hold all ranks' an equal slice, the others as they are.

    ``numerics.footprint.PARTS`` says which dimension is the ranks'. It stays, with a rank's length: [ranks, rows, hidden]
    becomes [1, rows, hidden], [ranks * rows, K] becomes [rows, K]. Slices of inputs are views, so that it is
    noticed in the call where one is written; of what the rank is to write they are its own memory.
    """

    def view(name: str, value: Any) -> Any:
        return _slice(call, name, value, rank) if _is_part(call, name) else value

    def own(name: str, tensor: Tensor) -> Tensor:
        return _slice(call, name, tensor, rank).clone() if _is_part(call, name) else tensor

    inputs = {name: view(name, value) for name, value in call.inputs.items()}
    buffers = {name: own(name, tensor) for name, tensor in call.buffers.items()}
    outputs = {name: own(name, tensor) for name, tensor in call.outputs.items()}
    return replace(call, inputs=inputs, buffers=buffers, outputs=outputs)


def merge(call: Call, mine: Call, gather: Callable[[Tensor], list[Tensor]]) -> None:
    """Writes every rank's outputs and buffers into the call; what has no part for each rank is rank 0's.

    ``gather`` returns a tensor of equal shape from each rank, in their order.
    """
    for there, here in ((call.outputs, mine.outputs), (call.buffers, mine.buffers)):
        for name, tensor in there.items():
            ranks = gather(here[name])
            if _is_part(call, name):
                for rank, one in enumerate(ranks):
                    _slice(call, name, tensor, rank).copy_(one)
            else:
                tensor.copy_(ranks[0])


def _is_part(call: Call, name: str) -> bool:
    return name in PARTS.get(call.stage, {})


def _slice(call: Call, name: str, tensor: Tensor, rank: int) -> Tensor:
    dim = PARTS[call.stage][name]
    length = tensor.shape[dim] // call.shape["tp"]
    return tensor.narrow(dim, rank * length, length)
