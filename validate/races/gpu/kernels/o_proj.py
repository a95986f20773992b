"""``OprojProducer`` with two-shot stores (vLLM 0.33.0, cutedsl/oproj): one rank's partials, stored to all owners' slots.

The owners' receive slots lie side by side here. It reads the attention's output after waiting for its predecessor.
"""

import torch

from validate.model.dimensions import K3
from validate.paths.emulated.mailbox import arm
from validate.paths.vllm import binding
from validate.paths.vllm.entries import PREPARED_OPROJ, imported
from validate.paths.vllm.o_proj import CAPACITY
from validate.paths.vllm.source import Source
from validate.races.gpu.bound import Bound, draw, region, weight

RANK = 1


def bind(source: Source, device: torch.device, *, tp: int, rows: int) -> Bound:
    """Up to 8 rows, at TP 8 up to 16."""
    host = binding.host(source)
    k = K3.heads * K3.head_dim // tp
    late, (x,) = region(device, [((rows, k), torch.bfloat16)])
    matrix = weight(device, 0, K3.hidden, k, scale=0.03)
    received = torch.empty(tp, tp, CAPACITY, K3.hidden // tp, dtype=torch.bfloat16, device=device)
    owners = torch.zeros(tp, dtype=torch.int64, device=device)
    if not received.is_meta:
        owners.copy_(torch.tensor([owner.data_ptr() for owner in received]))
    code = imported(source, PREPARED_OPROJ, "compile_oproj")("producer", k, rows, tp, 1, True, False, False, CAPACITY, True)
    rank = binding.cutlass().Int32(RANK)

    def launch() -> None:
        views = host.to_cute(x), host.to_cute(matrix), host.to_cute(received[0]), host.to_cute(owners)
        code(*views, rank, host.stream(device))

    def refresh(seed: int) -> None:
        arm(received)
        draw(seed, x)

    return Bound(launch, {"received": received}, refresh, late)
