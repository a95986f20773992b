"""``MlaQuery`` and ``MlaValue`` (vLLM 0.33.0, cutedsl/mla), bound as in ``paths.vllm.mla_around_core``.

The query's cluster gathers its rows over the blocks' shared memory; it also inserts the row into the cache. Both read what
their predecessors wrote after waiting for them.
"""

import torch

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.paths.vllm.mla import LATENTS
from validate.paths.vllm.mla_around_core import Query, Value
from validate.paths.vllm.source import Source
from validate.races.gpu.bound import Bound, draw, poison, region, weight

BLOCK = 64  # rows of a cache page


def bind_query(source: Source, device: torch.device, *, tp: int, rows: int) -> Bound:
    """Up to 3 rows at TP 8 and 5 at TP 16; more takes SM100."""
    heads = K3.heads // tp
    late, (x, slots) = region(device, [((rows, LATENTS + heads * K3.v_head), torch.bfloat16), ((rows,), torch.int64)])
    cache = torch.empty(rows + 1, BLOCK, K3.mla_row, dtype=torch.uint8, device=device)
    query = torch.empty(rows, heads, K3.mla_row, dtype=torch.uint8, device=device)
    inputs = {
        "x": x,
        "slots": slots,
        "q_norm": weight(device, 0, K3.q_lora),
        "kv_norm": weight(device, 1, K3.kv_lora),
        "q_b": weight(device, 2, heads * (K3.qk_nope + K3.qk_rope), K3.q_lora, scale=0.03),
        "w_uk": weight(device, 3, heads, K3.qk_nope, K3.kv_lora, scale=0.1),
        "q_scale_inv": torch.ones(1, device=device),
        "k_scale_inv": torch.ones(1, device=device),
        "eps": K3.rms_eps,
    }
    part = Call("mla", {}, inputs, {}, {"cache": cache}, {"query": query})

    def refresh(seed: int) -> None:
        poison(query, cache)
        draw(seed, x)
        slots.copy_(BLOCK * torch.arange(rows, device=device) + seed % BLOCK)

    return Bound(Query().prepare(part, source).launch, {"query": query, "cache": cache}, refresh, late)


def bind_value(source: Source, device: torch.device, *, tp: int, rows: int, q: int = 1) -> Bound:
    """Any rows."""
    heads = K3.heads // tp
    shapes = [
        ((rows, heads, K3.kv_lora), torch.bfloat16),
        ((rows, LATENTS + heads * K3.v_head), torch.bfloat16),
        ((rows // q,), torch.int32),
    ]
    late, (latent, x, lengths) = region(device, shapes)
    w_uv = weight(device, 0, heads, K3.v_head, K3.kv_lora, scale=0.05).transpose(1, 2)
    out = torch.empty(rows, heads * K3.v_head, dtype=torch.bfloat16, device=device)
    part = Call("mla", {"q": q}, {"latent": latent, "w_uv": w_uv, "x": x, "lengths": lengths}, {}, {}, {"out": out})

    def refresh(seed: int) -> None:
        poison(out)
        draw(seed, latent, x)
        lengths.fill_(seed + 1)

    return Bound(Value().prepare(part, source).launch, {"out": out}, refresh, late)
