"""Multi-head latent attention, one decode or verify step, up to the o-projection.

    q_a, c = RMSNorm(x_q), RMSNorm(x_kv)                       latents of the query (1536) and of key and value (512)
    q      = q_a W_qb                                          per head: nope 128, pe 64 (never rotated in K3)
    l      = [q_nope W_UK, q_pe]                               absorbed query: 512 + 64 channels
    k      = [c, x_pe]                                         one row of the cache, key and (its first 512) value
    o      = softmax(l k^T / sqrt(192)) c                      over the rows that the token may see
    out    = (o W_UV) * sigmoid(gate)

The heads are one rank's. The cache and, with it, the query are FP8 E4M3 with one scale each, or both bf16. Under decode
context parallelism every rank holds a share of the positions and attends to it for the heads of all ranks; the shares'
outputs are merged by their log-sum-exp. The heads then are those of all ranks, in their order.

Read from vLLM 0.33.0: ``models/kimi_k3/nvidia/mla.py``, ``v1/attention/ops/dcp.py``,
``v1/attention/backends/mla/flashinfer_mla.py`` (the default path) and ``specialized_decode/cutedsl/mla``; and from the
core that it calls, ``mla_decode_fp8.py`` of tokenspeed_mla 2.0.3. FlashInfer's trtllm-gen core is compiled code: what
it rounds inside is bounded, not reproduced.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from validate.model.call import Call, Expected
from validate.model.draws import Draws
from validate.model.gpu import SMS
from validate.reference.points import U32, Point, Points, rms_norm, sum_error

FOLLOWS_SUBJECT = True  # attention is judged on the FP8 query that the subject formed; that query is an output itself

BF16, E4M3 = torch.bfloat16, torch.float8_e4m3fn
E4M3_LARGEST = 448.0
TILE = 128  # keys that tokenspeed's core takes at a time (mla_helpers.py select_mla_decode_tilers)
RESCALE_FROM = 8.0  # it keeps an old maximum that the new one does not pass by more than 2**8 (mla/dcp.py stock_decode)
NORMED = Point(BF16, BF16, "fused_q_kv_rmsnorm stores bf16 (models/common/ops); BFloat16(x * rr * weight) in mla/query.py")
PROJECTED = Point(BF16, BF16, "q_b_proj is a bf16 linear layer (mla.py); qrow = BFloat16(value) in mla/query.py")
ABSORBED = Point(BF16, BF16, "bmm of bf16 (mla.py); rounded = BFloat16(value) before fp8_bits in mla/query.py")
QUERY = Point(E4M3, E4M3, "FP8 query by q_scale_inv, saturating: fused_mla_decode_q_concat...(mla.py), fp8_bits (mla/query.py)")
ROW = Point(E4M3, E4M3, "FP8 cache row by k_scale_inv, saturating: the same two kernels")
PROBABILITY = Point(
    None,
    E4M3,
    "tokenspeed 2.0.3, softmax: exp2 results go to q_dtype before P V, their sum stays fp32. trtllm-gen (default path; "
    "specialized from 16 rows): assumed E4M3, since its FP8 MMA takes no wider operand, but relative to a maximum that "
    "is not visible: so an error, not a rounding",
)
LATENT = Point(BF16, BF16, "the cores write a bf16 latent (mla/prepared.py: latent, box.rows; flashinfer_mla.py)")
CORRECTED = Point(BF16, None, "correct_attn_out scales the bf16 output in place (v1/attention/ops/dcp.py); fp32 in mla/dcp.py")
MERGED = Point(BF16, BF16, "reduce_scatter of bf16 (dcp.py); pack_pair of the fp32 sum (mla/dcp.py)")
VALUE = Point(BF16, BF16, "bmm of bf16 (mla.py); BFloat16(acc) before the gate (mla/value.py). sigmoid(gate) stays fp32 in both")
FP32 = Point(None, None, "fp32 in both paths")


def reference(call: Call, points: Points) -> dict[str, Expected]:
    """Outputs ``query`` [rows, H, 576] and ``out`` [rows, H * 128]; new rows of ``cache`` [shards, pages, block, 576].

    Inputs: ``x`` [rows, 2112 + H * 128] (query latent 1536, kv latent 512, pe 64, gate), ``q_norm`` [1536], ``kv_norm``
    [512], ``q_b`` [H * 192, 1536], ``w_uk`` [H, 128, 512], ``w_uv`` [H, 512, 128]; ``slots`` [shards, rows] (page *
    block + offset, or -1: not written), ``table`` [requests, pages], ``lengths`` [shards, requests] and ``totals``
    [requests], both with the q new rows; ``interleave`` of the context parallelism; floats ``scale`` (of the softmax),
    ``q_scale``, ``k_scale`` and their fp32 reciprocals ``q_scale_inv``, ``k_scale_inv``. Row t of a request sees the
    positions up to its own. A request of length 0 is padding: its rows of ``out`` are zero.
    """
    i = call.inputs
    fp8 = call.buffers["cache"].dtype == E4M3
    query = points.once("query", lambda: _query(call, points, fp8))
    row = points.once("row", lambda: _row(call, points, fp8))
    rounded = points.rounded
    cache = call.buffers["cache"].clone()
    shard, token = (i["slots"] >= 0).nonzero(as_tuple=True)
    slot = i["slots"][shard, token]
    where = (shard, slot // cache.shape[2], slot % cache.shape[2])
    cache[where] = row[token].to(cache.dtype)
    chosen = points.given["query"].double() if "query" in points.given else query
    latent = _attend(call, points, chosen, cache)
    out = _value(call, points, latent)
    return {
        "query": Expected(query, roundings=rounded),
        "cache": Expected(row[token], where, roundings=rounded),
        "out": Expected(out, roundings=points.rounded),
    }


def local_rows(total: int, shard: int, shards: int, interleave: int) -> int:
    """How many of the first ``total`` positions shard ``shard`` holds, in turns of ``interleave``."""
    cycles, rest = divmod(total, shards * interleave)
    return cycles * interleave + min(max(rest - shard * interleave, 0), interleave)


def core(call: Call, path: str) -> str:
    """``tokenspeed`` where the path's core can be reproduced (mla/prepared.py core_for), else ``closed``."""
    fused = path == "specialized" and (call.shape["regime"] < 16 or call.shape["q"] > 1 or call.shape["dcp"] > 1)
    return "tokenspeed" if fused else "closed"


def _query(call: Call, points: Points, fp8: bool) -> Tensor:
    """[rows, H, 576]: the absorbed query as the attention core gets it."""
    i = call.inputs
    w_uk = i["w_uk"].double()
    heads, nope, _ = w_uk.shape
    latent, gap = _normed(points, i["x"][:, : i["q_norm"].numel()], i["q_norm"], i["eps"])
    projected, error = points.matmul(latent, i["q_b"])
    moved = gap.any(0)
    error = error + gap[:, moved] @ i["q_b"][:, moved].double().abs().T
    q = points(PROJECTED, projected, error).view(len(latent), heads, -1)
    gap = _gap(projected, error, BF16).view_as(q)[..., :nope]
    absorbed = torch.einsum("rhp,hpl->rhl", q[..., :nope], w_uk)
    terms = torch.einsum("rhp,hpl->rhl", q[..., :nope].square(), w_uk.square()).sqrt()
    error = sum_error(terms, nope) + torch.einsum("rhp,hpl->rhl", gap, w_uk.abs())
    absorbed = points(ABSORBED, absorbed, error)
    query = torch.cat([absorbed, q[..., nope:]], -1)
    return _quantised(points, QUERY, query, i["q_scale_inv"]) if fp8 else query


def _row(call: Call, points: Points, fp8: bool) -> Tensor:
    """[rows, 576]: what each new token adds to the cache."""
    i = call.inputs
    start, width = i["q_norm"].numel(), i["kv_norm"].numel()
    latent, _ = _normed(points, i["x"][:, start : start + width], i["kv_norm"], i["eps"])
    pe = i["x"][:, start + width : start + call.buffers["cache"].shape[-1]].double()
    row = torch.cat([latent, pe], -1)
    return _quantised(points, ROW, row, i["k_scale_inv"]) if fp8 else row


def _normed(points: Points, x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """RMSNorm to bf16, and its ``_gap``. The mean of positive terms, rsqrt.approx and two products: 12 roundings."""
    y = rms_norm(x.double(), weight, eps)
    error = 12 * U32 * y.abs()
    return points(NORMED, y, error), _gap(y, error, BF16)


def _gap(value: Tensor, error: Tensor, dtype: torch.dtype) -> Tensor:
    """How far two correct roundings of ``value`` may lie apart: mostly not at all, else an ulp.

    What such a value feeds moves by that times its weight. The members of the ensemble move all of them at once, a
    kernel any few of them; so the next step's error bound contains each.
    """
    return (value + error).to(dtype).double() - (value - error).to(dtype).double()


def _quantised(points: Points, point: Point, value: Tensor, inverse: float) -> Tensor:
    """``value * inverse`` in E4M3, cut off at its largest number; the product rounds once."""
    value = value * inverse
    return points(point, value.clamp(-E4M3_LARGEST, E4M3_LARGEST), U32 * value.abs())


@dataclass
class _Part:
    """One shard's share of a request: output [q, H, 512] in cache units, log2-sum-exp2 [q, H], and their errors."""

    out: Tensor
    error: Tensor
    lse: Tensor
    lse_error: Tensor


def _attend(call: Call, points: Points, query: Tensor, cache: Tensor) -> Tensor:
    """[rows, H, 512]: the latent output, zero for padding."""
    i = call.inputs
    q, shards, width = call.shape["q"], call.shape["dcp"], i["kv_norm"].numel()
    fp8 = cache.dtype == E4M3
    units = i["scale"] * (i["q_scale"] * i["k_scale"] if fp8 else 1.0) / math.log(2)
    out = torch.zeros(*query.shape[:2], width, dtype=torch.float64)
    flat = cache.flatten(1, 2)
    noise = Draws("directions of errors")
    for b, total in enumerate(i["totals"].tolist()):
        if total == 0:
            continue
        rows = slice(b * q, (b + 1) * q)
        parts = []
        for shard in range(shards):
            bounds = torch.tensor([local_rows(total - q + t + 1, shard, shards, i["interleave"]) for t in range(q)])
            length = int(bounds.max())
            if length == 0:
                continue
            at = torch.arange(length)
            slots = i["table"][b].long()[at // cache.shape[2]] * cache.shape[2] + at % cache.shape[2]
            keys = flat[shard, slots].double()
            scores, error = _scores(points, noise, query[rows], keys, bounds, units)
            if core(call, points.path) == "tokenspeed":
                part = _tokenspeed(call, points, scores, error, keys[:, :width])
            else:
                part = _closed(points, noise, scores, error, keys[:, :width], 2.0**-4 if fp8 else 2.0**-9)
            parts.append(part)
        out[rows] = _merged(points, parts, i["k_scale"] if fp8 else 1.0, shards)
    return out


def _scores(points: Points, noise: Draws, query: Tensor, keys: Tensor, bounds: Tensor, units: float) -> tuple[Tensor, Tensor]:
    """Scores [q, H, n] in powers of two, -inf where a row may not look, and the relative error of 2 to their power.

    Softmax does not see an error that all scores share, so each is moved in its own direction.
    """
    scores = query @ keys.T * units
    # fp32 holds the 2-norm of the products well enough for a bound.
    terms = (query.float().square() @ keys.float().square().T).sqrt() * units
    hidden = torch.arange(len(keys)) >= bounds[:, None, None]
    # The scaled score, the scaled maximum and their difference round once each; so does the scale.
    size = scores.abs() + scores.masked_fill(hidden, 0.0).abs().amax(-1, keepdim=True)
    error = sum_error(terms.double(), keys.shape[1]) + 2 * U32 * size
    sign = noise.integers(tuple(scores.shape), 0, 2) * 2 - 1
    return points(FP32, scores, sign * error).masked_fill(hidden, -torch.inf), error * math.log(2)


def _closed(points: Points, noise: Draws, scores: Tensor, error: Tensor, values: Tensor, roundoff: float) -> _Part:
    """A core whose inside is not visible: probabilities err by what their dtype rounds off, each in its own way."""
    top, weights = _weights(scores)
    weights = points(FP32, weights, 4 * U32 * weights)
    # Below 2**-6 of the maximum E4M3 has the fixed step 2**-9, and half of it may be lost.
    rounded_off = torch.minimum(weights, (weights * roundoff).clamp_min(2.0**-10 if roundoff > 2.0**-8 else 0.0))
    # Roundings go either way; taking each at its bound leaves a margin of 3**0.5 over their deviation.
    sign = noise.integers(tuple(weights.shape), 0, 2) * 2 - 1
    total = weights.sum(-1)
    weights = points(FP32, weights, sign * rounded_off)
    return _part(weights, error, values, total, top)


def _weights(scores: Tensor) -> tuple[Tensor, Tensor]:
    """The maximum [q, H] of each row (0 where it sees nothing) and 2 ** (scores - maximum)."""
    top = scores.amax(-1)
    top = torch.where(top == -torch.inf, 0.0, top)
    return top, torch.exp2(scores - top[..., None])


def _part(weights: Tensor, error: Tensor, values: Tensor, total: Tensor, top: Tensor) -> _Part:
    """From weights [q, H, n] relative to ``top``, their relative errors and their sum before any rounding."""
    share = weights / torch.where(total == 0, 1.0, total)[..., None]
    out = share @ values
    terms = (share.float().square() @ values.float().square()).sqrt().double()
    # The output moves by sum(share * error * (value - out)), which is within the product of these two deviations.
    moved = (share * error.square()).sum(-1).sqrt()
    deviation = (share @ values.square() - out.square()).clamp_min(0).sqrt()
    # The row's sum of weights, rescaling, reciprocal and the merge of splits stay within 16 further roundings.
    bound = sum_error(terms, len(values)) + moved[..., None] * deviation + 16 * U32 * out.abs()
    return _Part(out, bound, total.log2() + top, moved)


def _tokenspeed(call: Call, points: Points, scores: Tensor, error: Tensor, values: Tensor) -> _Part:
    """A core of splits of whole tiles, a maximum that may lag by 2**8, and probabilities in E4M3 relative to it."""
    tiles = -(-len(values) // TILE)
    split = -(-tiles // splits(call)) * TILE
    weights = torch.zeros_like(scores)  # as rounded, relative to the top of all
    total = torch.zeros(scores.shape[:2], dtype=torch.float64)
    overall, _ = _weights(scores)
    for start in range(0, len(values), split):
        top = torch.full_like(overall, -torch.inf)
        for first in range(start, min(start + split, len(values)), TILE):
            tile = slice(first, min(first + TILE, start + split))
            new = torch.maximum(top, scores[..., tile].amax(-1))
            # The first tile never keeps: -inf lies further off than any threshold.
            top = torch.where((new - top <= RESCALE_FROM) & (top > -torch.inf), top, new)
            shown = torch.where(top == -torch.inf, overall, top)[..., None]
            exact = torch.exp2(scores[..., tile] - shown)
            exact = points(FP32, exact, 4 * U32 * exact)
            rounded = points(PROBABILITY, exact, 0.0)
            weights[..., tile] = rounded * torch.exp2(shown - overall[..., None])
            total += exact.sum(-1) * torch.exp2(shown[..., 0] - overall)
    return _part(weights, error, values, total, overall)


def splits(call: Call) -> int:
    """Shares that tokenspeed cuts a context into: ``fill_splits`` of mla/dcp.py, or more if its own rule says so."""
    regime, q = call.shape["regime"], call.shape["q"]
    tiles = -(-call.inputs["w_uk"].shape[0] * q // 128)  # of query rows: 128 of them share one pass over the keys
    return max(1, SMS // (2 * regime), min(32, SMS // (regime // q) // (2 * tiles)))


def _merged(points: Points, parts: list[_Part], k_scale: float, shards: int) -> Tensor:
    """[q, H, 512] of one request from the bf16 outputs of its non-empty shards."""
    latents = [points(LATENT, part.out * k_scale, part.error * k_scale) for part in parts]
    if shards == 1:
        return latents[0]
    lse = torch.stack([part.lse for part in parts])
    top = lse.amax(0)
    share = torch.exp2(lse - top)
    share = share / share.sum(0)
    # log2 of the sum, the difference of two, exp2 and the division: a few roundings, and those of the logarithms.
    moved = torch.stack([part.lse_error for part in parts])
    share_error = share * (U32 * (8 + 2 * lse.abs().nan_to_num(posinf=0.0)) + moved + moved.amax(0))
    merged = torch.zeros_like(latents[0])
    error = torch.zeros_like(merged)
    for n, latent in enumerate(latents):
        part = share[n, ..., None] * latent
        merged += points(CORRECTED, part, share_error[n, ..., None] * latent.abs())
        error += 2 * U32 * part.abs()
    if points.path == "default":
        # NCCL adds bf16 rank by rank in an order of its own: an independent rounding of half an ulp at each hop.
        sign = Draws("reduce_scatter").integers(tuple(merged.shape), 0, 2) * 2 - 1
        level = torch.stack([(share[n, ..., None] * latent).abs() for n, latent in enumerate(latents)]).sum(0)
        error = error + sign * 2.0**-9 * (shards - 1) ** 0.5 * level
    return points(MERGED, merged, error)


def _value(call: Call, points: Points, latent: Tensor) -> Tensor:
    """[rows, H * 128]: projected by W_UV and gated."""
    i = call.inputs
    rows, _, width = latent.shape
    w_uv = i["w_uv"].double()
    value = torch.einsum("rhl,hlv->rhv", latent, w_uv)
    terms = torch.einsum("rhl,hlv->rhv", latent.square(), w_uv.square()).sqrt()
    value = points(VALUE, value, sum_error(terms, width)).reshape(rows, -1)
    gate = i["x"][:, -value.shape[1] :].double()
    live = (i["totals"] > 0).repeat_interleave(call.shape["q"])[:, None]
    out = torch.where(live, value * torch.sigmoid(gate), 0.0)
    # exp by its fast form turns the rounding of its argument into a relative error.
    return points(FP32, out, torch.where(live, out.abs() * U32 * (8 + 2 * gate.abs()), 0.0))
