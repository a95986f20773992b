"""Logits over all tensor-parallel ranks, and the greedy token.

    logits = x W^T                  x: normalised rows; W: the head, a slice of the vocabulary on each rank
    token  = the lowest id among the largest bf16 logits

Rounding point read from vLLM 0.33.0: ``model_executor/layers/logits_processor.py``: one, the bf16 linear layer's. Both
paths share it: the specialized path ends with ``x``.
"""

import torch

from validate.model.call import Call, Expected, ExpectedChoice
from validate.reference.points import Point, Points

BF16 = torch.bfloat16
FP32 = Point(None, None, "fp32 accumulation; the only rounding is the output's")


def reference(call: Call, points: Points) -> dict[str, Expected | ExpectedChoice]:
    """Outputs ``logits`` bf16 [ranks, rows, vocab] and ``token`` int64 [ranks, rows, 1].

    Inputs: ``x`` bf16 [rows, hidden], ``head`` bf16 [vocab, hidden] in the order of the ranks. Which logits round to
    equal numbers is for the subject to find, so its token is judged on its own logits, and exactly; those are judged
    themselves.
    """
    product, error = points.matmul(call.inputs["x"], call.inputs["head"])
    scores = points.given["logits"][0].double() if "logits" in points.given else product.to(BF16).double()
    return {
        "logits": Expected(points(FP32, product, error), replicated=True),
        "token": ExpectedChoice(scores, torch.zeros_like(scores), 1, replicated=True),
    }
