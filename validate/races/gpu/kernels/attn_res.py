"""``ClusterAttnRes`` by vLLM's ``PreparedAttnRes`` (0.33.0, cutedsl/attn_res): seven thread blocks a token exchange their sums.

With ``slots`` it adds up a mailbox [slots, 64, 7168], without it reads a delta after waiting for its predecessor. Prefix and
saved blocks must be complete when it begins.
"""

import torch

from validate.model.dimensions import K3
from validate.paths.emulated.mailbox import arm
from validate.paths.vllm.entries import PREPARED_ATTN_RES, imported
from validate.paths.vllm.source import Source
from validate.races.gpu.bound import Bound, draw, poison, region, weight

CAPACITY = 64  # rows of the mailbox


def bind(source: Source, device: torch.device, *, slots: int, rows: int, write: int = -1, final: int = 0, aux: int = 0) -> Bound:
    """``write``: the block that it saves, or -1; ``aux``: it stores the new prefix to another stream, too."""
    columns = K3.hidden
    blocks_of = K3.attn_res_blocks if final else K3.attn_res_blocks - 1
    weights = tuple(weight(device, n, columns, scale=0.02 if n == 1 else 1.0) for n in range(3))
    key = (blocks_of, True, write, bool(final))
    prepared = imported(source, PREPARED_ATTN_RES, "PreparedAttnRes")(weights, key, (K3.rms_eps, K3.rms_eps))
    prefix, out, beside = (torch.empty(rows, columns, dtype=torch.bfloat16, device=device) for _ in range(3))
    blocks = torch.empty(rows, K3.attn_res_blocks, columns, dtype=torch.bfloat16, device=device)
    written = {"prefix": prefix, "blocks": blocks, "out": out} | ({"aux": beside} if aux else {})
    mailbox = torch.empty(slots, CAPACITY, columns, dtype=torch.bfloat16, device=device)
    late, (delta,) = region(device, [((rows, columns), torch.bfloat16)])
    if slots:
        prepared.bind_ring(mailbox)
    if aux:
        prepared.bind_aux()

    def refresh(seed: int) -> None:
        poison(out, beside)
        draw(seed, prefix, blocks, delta)
        arm(mailbox)
        draw(seed + 1, mailbox[:, :rows])

    stream = beside if aux else None
    if slots:
        return Bound(lambda: prepared.run_ring(prefix, blocks, out, stream), written, refresh, mailbox=mailbox, rows=rows)
    return Bound(lambda: prepared.run(delta, prefix, blocks, out, stream), written, refresh, late)
