"""Output projection of attention over all tensor-parallel ranks, and the residual that it feeds.

    partial_r = W_r local_r                     r over ranks: each holds a slice of the heads
    delta     = sum_r partial_r
    prefix'   = delta at block-write layers     (AttnRes saved the old prefix as a block), else prefix + delta

Rounding points read from vLLM 0.33.0: ``models/kimi_k3/nvidia/model.py`` (``o_proj.reduce_results``,
``_post_attn_norm``) and ``specialized_decode/cutedsl/oproj/{producer,consumer}.py``.
"""

import torch

from validate.model.call import Call, Expected
from validate.reference.points import U32, Point, Points, chain_error

BF16 = torch.bfloat16
PARTIAL = Point(BF16, BF16, "bf16 linear layer (model.py); pack8(reduced, latent) (producer.py)")
DELTA = Point(BF16, BF16, "bf16 all-reduce (model.py); pack_pair of the rank sum before the old prefix is added (consumer.py)")
FP32 = Point(None, None, "fp32 sums in both paths")


def reference(call: Call, points: Points) -> dict[str, Expected]:
    """Output ``delta`` [ranks, rows, hidden] and buffer ``prefix`` [ranks, rows, hidden], equal on all ranks.

    Inputs: ``local`` [ranks * prepared rows, K], rank after rank, of which the first ``batch`` rows of each rank are
    live; ``weight`` [hidden, K], the same shard on every rank (the local rows differ). ``shape["write"]`` marks a
    block-write layer.
    """
    tp, batch = call.shape["tp"], call.shape["batch"]
    hidden = call.inputs["weight"].shape[0]
    product, error = points.matmul(call.inputs["local"], call.inputs["weight"])
    product, error = (t.view(tp, -1, hidden)[:, :batch] for t in (product, error))
    partial = points(PARTIAL, product, error)
    delta = points(FP32, partial.sum(0), chain_error(partial))
    roundings = points.rounded
    rounded = points(DELTA, delta, 0.0)
    prefix = rounded if call.shape["write"] else call.buffers["prefix"][0].double() + rounded
    prefix = points(FP32, prefix, U32 * prefix.abs())
    return {
        "delta": Expected(delta, replicated=True, roundings=roundings),
        "prefix": Expected(prefix, replicated=True, roundings=points.rounded),
    }
