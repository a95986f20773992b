"""What the DSpark drafter keeps of the context: a row of the latent cache of each draft layer for each target token.

    h     = RMSNorm(W_c x)                                     x: hidden states of the target's layers, side by side
    [c, p]_l = W_l h                                           latent (512) and key rest (64) of draft layer l
    row_l = [RMSNorm_l(c_l), R(position) p_l] / scale_l        R rotates neighbouring channels: the drafter has RoPE

Read from vLLM 0.33.0, models/kimi_k3/nvidia/dspark_mla.py: ``combine_hidden_states`` and ``precompute_and_store_context_kv``. Its
operators ``rms_norm``, ``rotary_embedding`` and ``concat_and_cache_mla_grouped`` are compiled and not in the wheel: they are
taken to be as the layers' native forms, the rotation in fp32, since its table is. Both paths have the same drafter.
"""

import torch
from torch import Tensor

from validate.model.call import Call, Expected
from validate.reference.final_norm import normalised
from validate.reference.points import U32, Point, Points

FOLLOWS_SUBJECT = True  # the rows are judged on the context that the subject formed; that is an output itself

BF16, E4M3 = torch.bfloat16, torch.float8_e4m3fn
E4M3_LARGEST = 448.0
COMBINED = Point(BF16, BF16, "context_proj is a bf16 linear layer")
PROJECTED = Point(BF16, BF16, "context_kv_proj is a bf16 linear layer")
LATENT = Point(BF16, BF16, "rms_norm writes bf16 rows")
ROTATED = Point(BF16, BF16, "rotary_embedding writes the bf16 rows in place")
ROW = Point(E4M3, E4M3, "concat_and_cache_mla_grouped divides by the layer's scale and rounds, saturating")


def reference(call: Call, points: Points) -> dict[str, Expected]:
    """Output ``context`` bf16 [tokens, hidden]; new rows of ``cache`` [layers, pages, block, 576], bf16 or E4M3.

    Inputs: ``states`` bf16 [tokens, targets * hidden], ``context_proj`` [hidden, targets * hidden], ``context_norm`` [hidden],
    ``kv_proj`` [layers * 576, hidden], ``kv_norm`` [layers, 512], all bf16; ``table`` fp32 [positions, 64], the cosines of 32
    frequencies, then their sines; ``positions`` int64 [tokens]; ``slots`` int64 [layers, tokens], or [tokens] where the layers
    share them: page * block + offset, or -1: not written; ``scales`` fp32 [layers], for an E4M3 cache; ``eps``.
    """
    i, cache = call.inputs, call.buffers["cache"]
    points = points.on("default")
    live = _slots(call).amax(0) >= 0  # what padding holds is nobody's
    states = points.fixed("states", lambda: i["states"][live])
    product, error = points.matmul(states, i["context_proj"])
    combined = points(COMBINED, product, error)
    context = normalised(combined, combined.square().mean(-1, keepdim=True), i["context_norm"].double(), i["eps"], points)
    own = points.rounded
    rows = _rows(call, points, _context(points, context, live), i["positions"][live])
    layer, token = (_slots(call)[:, live] >= 0).nonzero(as_tuple=True)
    slot = _slots(call)[:, live][layer, token]
    where = (layer, slot // cache.shape[2], slot % cache.shape[2])
    return {
        "context": Expected(context, (live.nonzero()[:, 0],), roundings=own),
        "cache": Expected(rows[layer, token], where, roundings=points.rounded),
    }


def _context(points: Points, own: Tensor, live: Tensor) -> Tensor:
    """The rows that the subject formed, one tensor for all members, so that its product is formed once."""
    if "context" not in points.given:
        return own.to(BF16)
    given = points.given["context"]
    return points.fixed(f"context {id(given)}", lambda: (given, given[live]))[1]  # kept, so that its id stays its own


def _slots(call: Call) -> Tensor:
    slots: Tensor = call.inputs["slots"]
    return slots if slots.dim() == 2 else slots.expand(len(call.buffers["cache"]), -1)


def _rows(call: Call, points: Points, context: Tensor, positions: Tensor) -> Tensor:
    """[layers, tokens, 576]: the rows as they are stored."""
    i = call.inputs
    layers, width = i["kv_norm"].shape
    product, error = points.matmul(context, i["kv_proj"])
    projected = points(PROJECTED, product, error).unflatten(1, (layers, -1)).transpose(0, 1)
    latent, rest = projected[..., :width], projected[..., width:]
    latent = normalised(latent, latent.square().mean(-1, keepdim=True), i["kv_norm"][:, None].double(), i["eps"], points)
    cosine, sine = i["table"][positions].double().chunk(2, -1)
    even, odd = rest[..., 0::2], rest[..., 1::2]
    rotated = torch.stack([even * cosine - odd * sine, odd * cosine + even * sine], -1)
    # Two products and a sum, or a product and an FMA.
    error = 2 * U32 * torch.stack([(even * cosine).abs() + (odd * sine).abs(), (odd * cosine).abs() + (even * sine).abs()], -1)
    rotated, error = rotated.flatten(-2), error.flatten(-2)
    if call.buffers["cache"].dtype != E4M3:
        return torch.cat([latent, rotated], -1)
    row = torch.cat([points(LATENT, latent, 0.0), points(ROTATED, rotated, error)], -1)
    row = row / i["scales"][:, None, None].double()
    return points(ROW, row.clamp(-E4M3_LARGEST, E4M3_LARGEST), U32 * row.abs())
