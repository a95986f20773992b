"""The fused input projection of an attention layer, one rank: x W^T.

KDA: q, k, v, output gate, F_A (replicated) and beta; MLA: query latent, key-value latent, key rest and output gate.

Rounding point read from vLLM 0.33.0: ``models/kimi_k3/nvidia/low_latency_gemm.py`` and
``specialized_decode/cutedsl/gemm/splitk.py``: one, at the output.
"""

from validate.model.call import Call, Expected
from validate.reference.points import Point, Points

FP32 = Point(None, None, "fp32 accumulation; the only rounding is the output's")


def reference(call: Call, points: Points) -> dict[str, Expected]:
    """Output ``projected`` bf16 [prepared rows, n], of which the first ``batch`` rows are judged.

    Inputs: ``x`` bf16 [prepared rows, hidden], ``weight`` bf16 [n, hidden]. ``shape["mla"]`` says which layer kind it
    is.
    """
    product, error = points.matmul(call.inputs["x"], call.inputs["weight"])
    rows = slice(0, call.shape["batch"])
    return {"projected": Expected(points(FP32, product, error)[rows], (rows,))}
