"""``RouteSitu`` (vLLM 0.33.0, cutedsl/moe/front.py): it polls logits and latent in the front's mailbox, or applies SiTU."""

import torch

from validate.model.dimensions import K3
from validate.paths.emulated.mailbox import arm
from validate.paths.vllm.route_situ import CAPACITY, ROW, bound
from validate.paths.vllm.source import Source
from validate.races.gpu.bound import Bound, draw, poison, region, weight

SHARED = K3.shared_intermediate // 8  # columns of a rank's shared experts at TP 8
SCALARS = (K3.routed_scaling, K3.situ_beta, K3.situ_linear_beta)


def bind_route(source: Source, device: torch.device, *, rows: int) -> Bound:
    """The roles that route and copy the latent. Above 8 rows the routing never waits for its predecessor: the poll is enough."""
    mailbox = torch.empty(1, CAPACITY, ROW, dtype=torch.bfloat16, device=device)
    written = {
        "ids": torch.empty(rows, K3.top_k, dtype=torch.int32, device=device),
        "weights": torch.empty(rows, K3.top_k, dtype=torch.bfloat16, device=device),
        "latent": torch.empty(rows, K3.latent, dtype=torch.bfloat16, device=device),
    }
    bias = weight(device, 0, K3.experts, scale=0.1, dtype=torch.float32)
    launch = bound(source, (True, True, False), rows, SHARED, SCALARS, written | {"bias": bias, "mailbox": mailbox})
    logits = torch.empty(rows, K3.experts, dtype=torch.float32, device=device)

    def refresh(seed: int) -> None:
        poison(*written.values())
        arm(mailbox)
        draw(seed, mailbox[0, :rows, : K3.latent], logits)
        mailbox[0, :rows, K3.latent :] = logits.view(torch.bfloat16)

    return Bound(launch, written, refresh, mailbox=mailbox, rows=rows)


def bind_situ(source: Source, device: torch.device, *, rows: int) -> Bound:
    """The role of the shared experts' SiTU, which reads another kernel's products after waiting for it."""
    late, (gate_up,) = region(device, [((rows, 2 * SHARED), torch.float32)])
    hidden = torch.empty(rows, SHARED, dtype=torch.bfloat16, device=device)
    launch = bound(source, (False, False, True), rows, SHARED, SCALARS, {"gate_up": gate_up, "hidden": hidden})

    def refresh(seed: int) -> None:
        poison(hidden)
        draw(seed, gate_up)

    return Bound(launch, {"hidden": hidden}, refresh, late)
