"""``KdaSplit`` by vLLM's ``PreparedKda`` (0.33.0, cutedsl/kda): blocks of a cluster send each other decays and outputs.

State, convolution state and slots must be complete when it begins; the projected row is read after waiting for its predecessor.
"""

from types import SimpleNamespace

import torch

from validate.model.dimensions import K3
from validate.paths.vllm.entries import PREPARED_KDA, imported
from validate.paths.vllm.kda import gate_mode
from validate.paths.vllm.source import Source
from validate.races.gpu.bound import Bound, draw, poison, region, weight


def bind(source: Source, device: torch.device, *, tp: int, rows: int, q: int = 1) -> Bound:
    """``rows`` of decode, or of ``rows // q`` requests to verify, half of whose drafted tokens were accepted."""
    heads, dim, requests = K3.heads // tp, K3.head_dim, rows // q
    width, pitch = heads * dim, K3.kda_projection_rows(tp)
    attention = SimpleNamespace(
        conv1d=SimpleNamespace(weight=weight(device, 0, 3 * width, 1, K3.conv_width, scale=0.5), bias=None),
        dt_bias=weight(device, 1, width, dtype=torch.float32),
        A_log=weight(device, 2, heads, dtype=torch.float32),
        f_b_proj=SimpleNamespace(weight=weight(device, 3, width, dim, scale=0.1)),
        o_norm=SimpleNamespace(weight=weight(device, 4, dim), eps=K3.rms_eps),
        gate_lower_bound=K3.gate_lower_bound,
    )
    policies = {rows: (pitch, gate_mode(heads, rows))} if q == 1 else {(requests, q): (pitch, int(heads == 12))}
    taps = K3.conv_width - 1 if q == 1 else q + 2
    # Slot 0 is the null slot and the last nobody's: both are left as they came, and nothing reads them.
    conv = torch.empty(rows + 2, taps, 3 * width, dtype=torch.bfloat16, device=device)
    state = torch.empty(rows + 2, heads, dim, dim, dtype=torch.float32, device=device)
    caches = (conv, state)
    kernel = imported(source, PREPARED_KDA, "PreparedKda")(attention, policies, False).prepare_caches(caches)
    late, (projected,) = region(device, [((rows, pitch), torch.bfloat16)])
    out = torch.empty(rows, width, dtype=torch.bfloat16, device=device)
    slots = torch.arange(rows, 0, -1, dtype=torch.int32, device=device)
    accepted = torch.full((requests,), max(1, q // 2), dtype=torch.int32, device=device)

    def refresh(seed: int) -> None:
        poison(out)
        draw(seed, projected, conv[1:-1])
        draw(seed + 1, state[1:-1], scale=0.25)

    def launch() -> object:
        if q == 1:
            return kernel.run(projected, out, caches=caches, slots=slots)
        return kernel.run(projected, out, caches=caches, slots=slots.view(requests, q), accepted=accepted)

    return Bound(launch, {"out": out, "conv": conv, "state": state}, refresh, late)
