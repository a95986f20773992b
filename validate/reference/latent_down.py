"""The projection into the routed experts' latent space: out = bf16(x W^T), W [3584, 7168], the same on all ranks.

Rounding points read from vLLM 0.33.0: ``models/kimi_k3/nvidia/model.py`` (``routed_expert_down_proj``, a replicated
bf16 layer) and ``specialized_decode/cutedsl/gemm/ws_gemm.py`` (fp32 sums over K, one rounding, all-gather through the
front's mailbox).
"""

from validate.model.call import Call, Expected
from validate.reference.points import Point, Points

OUTPUT = Point(None, None, "fp32 accumulator, rounded once to the bf16 output (ws_gemm.py epilogue)")

LOST = 2.0**-150  # half of fp32's smallest subnormal number: what a product below the normal numbers may lose


def reference(call: Call, points: Points) -> dict[str, Expected]:
    """Output ``out`` bf16 [ranks, rows, 3584], equal on all ranks.

    Inputs: ``x`` bf16 [rows, 7168], ``weight`` bf16 [3584, 7168], ``live``: rows that belong to a request; those after
    them are padding, may hold NaN, and what comes out of them is free.
    """
    i = call.inputs
    live = i["live"]
    value, error = points.matmul(i["x"], i["weight"])
    error = error + i["x"].shape[1] * LOST
    out = points(OUTPUT, value[:live], error[:live])
    return {"out": Expected(out, (slice(0, live),), replicated=True, roundings=points.rounded)}
