"""``RouteSitu`` of vLLM's moe/front.py (0.33.0): one kernel that routes, copies the latent, or applies the shared SiTU.

Each role reads and writes some of the kernel's tensors; a launch takes all.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from validate.model.dimensions import K3
from validate.paths.emulated.mailbox import armed
from validate.paths.vllm import binding
from validate.paths.vllm.entries import FRONT, imported
from validate.paths.vllm.source import Source

CAPACITY = 64  # rows of the mailbox
ROW = K3.latent + 2 * K3.experts  # bf16 columns of a mailbox's row: the latent, then fp32 logits (front.py WIDTH)
Shapes = dict[str, tuple[tuple[int, ...], torch.dtype]]


def front_mailbox(rows: int) -> Tensor:
    """bf16 [1, CAPACITY, ROW]: zeros in the first ``rows``, the others armed."""
    box = armed((1, CAPACITY, ROW))
    box[0, :rows] = 0.0
    return box


def bound(
    source: Source,
    roles: tuple[bool, bool, bool],
    rows: int,
    shared: int,
    scalars: Sequence[float],
    used: dict[str, Tensor],
    plan: Tensor | None = None,
) -> Callable[[], None]:
    """A launch in these roles (route, copy, SiTU), for ``rows`` rows and ``shared`` columns of one rank's shared experts.

    ``scalars``: the routing's scale, SiTU's beta and linear beta. ``used``: by name, the tensors of the roles; the others
    are zeros. Logits come through the mailbox. ``plan``: where the copying role writes the latent for the experts, too.
    """
    host = binding.host(source)
    device = next(iter(used.values())).device
    code = imported(source, FRONT, "compile_route")(rows, shared, True, roles, device.index, roles[0], plan is not None)
    shapes: Shapes = {
        "logits": ((rows, K3.experts), torch.float32),
        "bias": ((K3.experts,), torch.float32),
        "ids": ((rows, K3.top_k), torch.int32),
        "weights": ((rows, K3.top_k), torch.bfloat16),
        "mailbox": ((1, CAPACITY, ROW), torch.bfloat16),
        "latent": ((rows, K3.latent), torch.bfloat16),
        "gate_up": ((rows, 2 * shared), torch.float32),
        "hidden": ((rows, shared), torch.bfloat16),
    }
    tensors = [
        used[name] if name in used else torch.zeros(shape, dtype=dtype, device=device) for name, (shape, dtype) in shapes.items()
    ]
    values = tuple(map(binding.cutlass().Float32, scalars))
    written = () if plan is None else (host.to_cute(plan),)
    return lambda: code(*map(host.to_cute, tensors), *values, *written, host.stream(device))
