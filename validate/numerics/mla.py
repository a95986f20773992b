"""Cases of multi-head latent attention: decode and verify steps over paged caches, whole or shared.

A whole context is one rank's with its heads. Of a shared one each rank holds a part, for the heads of all ranks: such a
case has them all.
"""

from functools import lru_cache

import torch
from torch import Tensor

from validate.model.cache import paged_cache
from validate.model.call import Call
from validate.model.dimensions import K3
from validate.model.draws import Draws
from validate.model.synthetic import activation, gate_logits, linear_weight, norm_weight
from validate.numerics.case import Case, prepared_rows
from validate.profiles import Profile

INPUTS = ("trained", "boundary", "padded", "scaled", "peaked", "poisoned")
BLOCK = 64  # rows of a page: what the cores take (32 or 64)
TILE = 128  # keys that tokenspeed's core takes at a time
# Query and key scale of the "scaled" inputs by seed: powers of two, and numbers whose reciprocals fp32 rounds.
SCALES = ((0.0123, 0.0123), (0.0625, 0.0123), (0.0371, 0.25))


def cases(profile: Profile) -> list[Case]:
    """Every decode size and verify shape at every TP, each kind of input at some of them; shared and bf16 caches."""
    found = []
    for seed in range(profile.seeds):
        for tp in profile.tp:
            batches = profile.batches if tp > 1 else profile.batches[:1]  # TP1 has 16 times the weights of TP16
            for n, batch in enumerate(batches):
                # Where nothing but the number of rows changes, one kind of input will do.
                kinds = ("trained", INPUTS[1 + n % 5]) if batch <= 16 else (INPUTS[1 + n % 5],)
                found += [_case(tp, batch, 1, kind, seed) for kind in kinds]
            if tp == 1:
                continue
            # The same rows in the kernels of the neighbouring sizes: an end-to-end run never meets them.
            for n, (batch, regime) in enumerate(((1, 4), (4, 2), (6, 5), (5, 6), (8, 16), (16, 8), (16, 32))):
                found.append(_case(tp, batch, 1, INPUTS[n % 6], seed, regime=regime))
            for q in profile.queries:
                for n, requests in enumerate((1, 2, 4, 8)):
                    if requests * q <= 32:
                        found.append(_case(tp, requests * q, q, INPUTS[(n + q) % 6], seed))
            found += [_case(tp, batch, q, "faint", seed) for batch, q in ((2, 1), (6, 1), (16, 1), (8, 4))]
            found += [_case(tp, batch, q, "small", seed) for batch, q in ((3, 1), (32, 1), (4, 4))]
            # Smaller pages.
            found.append(_case(tp, 2, 1, "boundary", seed, block=32))
            found.append(_case(tp, 8, 1, "peaked", seed, regime=8, block=32))
            for n, (batch, q) in enumerate(((1, 1), (4, 1), (16, 1), (4, 4), (8, 4), (16, 8))):
                kind = ("boundary", "padded", "trained", "boundary", "peaked", "scaled")[n]
                found.append(_case(tp, batch, q, kind, seed, dcp=tp, interleave=(1, 1, 4, 1, 1, 64)[n]))
            # Contexts that leave some shards without keys, or some rows of a verify step without any on a shard.
            found += [_case(tp, 4 * q, q, "short", seed, dcp=tp) for q in (1, 4)]
            found.append(_case(tp, 4, 1, "short", seed, dcp=tp, interleave=8))
            found += [_case(tp, batch, q, "bf16", seed) for batch, q in ((1, 1), (8, 1), (8, 4))]
        if 16 in profile.tp:
            # Long enough for one split to take several tiles.
            found.append(_case(16, 3, 1, "long", seed, regime=8))
            found.append(_case(16, 4, 4, "long", seed))
    return found


def _case(
    tp: int,
    batch: int,
    q: int,
    inputs: str,
    seed: int,
    regime: int | None = None,
    dcp: int = 1,
    interleave: int = 1,
    block: int = BLOCK,
) -> Case:
    sizes = {"tp": tp, "batch": batch, "q": q, "regime": regime or (prepared_rows(batch) if q == 1 else batch)}
    return Case("mla", {**sizes, "dcp": dcp, "interleave": interleave, "block": block}, inputs, seed)


def build(case: Case) -> Call:
    """Inputs as ``reference.mla`` names them.

    ``boundary``: lengths of one row, and around pages and tiles. ``padded``: the last quarter of the requests (at least
    one, but not all) is padding: length 0, slot -1, a NaN gate and a NaN key-value row. ``scaled``: query and key
    scales other than 1. ``peaked``: scores of hundreds, which overflow unless the maximum is subtracted, and whose
    maximum rises from tile to tile. ``faint``: latents so small that the epsilon of their norms is felt. ``small``:
    queries and keys among E4M3's subnormals. ``poisoned``: NaN wherever no live row is. ``bf16``: a bf16 cache. ``long``: a few
    thousand positions, peaked, too. ``short``: a few positions.
    """
    draws = Draws("mla", case.id)
    sizes = case.sizes
    rows, q = sizes["batch"], sizes["q"]
    requests = rows // q
    weights = _weights(sizes["tp"] // sizes["dcp"])
    heads = weights["w_uk"].shape[0]
    totals = _totals(draws, case, requests)
    dead = max(1, requests // 4) if case.inputs == "padded" and requests > 1 else 0
    if dead:
        totals[-dead:] = 0
    dtype = torch.bfloat16 if case.inputs == "bf16" else torch.float8_e4m3fn
    q_scale, k_scale = SCALES[case.seed % 3] if case.inputs == "scaled" else (1.0, 1.0)
    shards, nan = (sizes["dcp"], sizes["interleave"]), case.inputs == "poisoned"
    cache = paged_cache(draws, totals, q, sizes["block"], K3.mla_row, dtype, *shards, std=1 / k_scale, nan=nan)
    latent = K3.q_lora + K3.mla_row
    x = torch.cat([activation(draws, rows, latent), gate_logits(draws, (rows, heads * K3.v_head))], 1)
    if dead:
        x[-dead * q :, K3.q_lora :] = float("nan")
    if case.inputs == "faint":
        x[:, :latent] *= 2.0**-9
    q_norm, kv_norm = weights["q_norm"], weights["kv_norm"]
    if case.inputs == "small":
        q_norm, kv_norm = q_norm * 2.0**-8, kv_norm * 2.0**-6
    if case.inputs in ("peaked", "long"):
        q_norm = q_norm * 32
    return Call(
        "mla",
        sizes,
        {
            **weights,
            "x": x,
            "q_norm": q_norm,
            "kv_norm": kv_norm,
            "slots": cache.slots,
            "table": cache.table,
            "lengths": cache.lengths,
            "totals": totals.int(),
            "interleave": sizes["interleave"],
            "scale": K3.mla_scale,
            "eps": K3.rms_eps,
            "q_scale": _fp32(q_scale),
            "k_scale": _fp32(k_scale),
            "q_scale_inv": _fp32(1 / _fp32(q_scale)),
            "k_scale_inv": _fp32(1 / _fp32(k_scale)),
        },
        {
            "query": ((rows, heads, K3.mla_row), dtype),
            "out": ((rows, heads * K3.v_head), torch.bfloat16),
        },
        {"cache": cache.pages},
    )


def _totals(draws: Draws, case: Case, requests: int) -> Tensor:
    """int64 [requests]: positions of each request, with the q new ones."""
    q, block, dcp = case.sizes["q"], case.sizes["block"], case.sizes["dcp"]
    if case.inputs == "long":
        return draws.integers((requests,), 2500, 4500)
    if case.inputs == "short":
        return draws.integers((requests,), q, q + dcp * case.sizes["interleave"])
    if case.inputs == "boundary":
        # Locally: one row, a page and a tile, each with a row less and a row more. From q on: the new rows are counted.
        edges = [1, block - 1, block, block + 1, TILE - 1, TILE, TILE + 1, 2, 2 * TILE + 1]
        start = int(draws.integers((1,), 0, len(edges)))
        return torch.tensor([max(q, dcp * (edges[(start + b) % len(edges)] - 1) + 1) for b in range(requests)])
    few = requests * q >= 32
    return draws.integers((requests,), q, 160 if few else 640)


@lru_cache(maxsize=3)
def _weights(tp: int) -> dict[str, Tensor]:
    """One rank's weights, at TP 1 those of all heads. Shared by all cases: drawing them takes longer than a case."""
    draws = Draws("mla", "weights", tp)
    heads = K3.heads // tp
    w_uk = linear_weight(draws, heads * K3.qk_nope, K3.kv_lora, (K3.kv_lora / K3.qk_nope) ** 0.5)
    return {
        "q_norm": norm_weight(draws, K3.q_lora),
        "kv_norm": norm_weight(draws, K3.kv_lora),
        "q_b": linear_weight(draws, heads * (K3.qk_nope + K3.qk_rope), K3.q_lora),
        "w_uk": w_uk.view(heads, K3.qk_nope, K3.kv_lora),
        "w_uv": linear_weight(draws, heads * K3.v_head, K3.kv_lora).view(heads, K3.v_head, K3.kv_lora).transpose(1, 2),
    }


def _fp32(value: float) -> float:
    """``value`` rounded to fp32."""
    return float(torch.tensor(value, dtype=torch.float32))
