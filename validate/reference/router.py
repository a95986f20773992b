"""The router: which 16 of 896 experts a token goes to, and with which weights (DeepSeek-V3, arXiv 2412.19437, section
2.1.2).

    s   = sigmoid(x G^T)                        G [896, 7168], bf16 products summed in fp32
    ids = the 16 largest of s + bias            bias fp32 [896]; it serves the choice only; ties go to the lower id
    w   = s[ids] / sum(s[ids]) * scaling        bf16

Rounding points read from vLLM 0.33.0: ``models/kimi_k3/nvidia/model.py`` (fp32 logits on the default path),
``specialized_decode/cutedsl/moe/front.py`` (``RouteSitu``), ``moe/routing.py`` (``Top16Fast``),
``moe/small_batch/front_tp8.py``. Nothing is rounded below fp32 before the weights.
"""

import torch
from torch import Tensor

from validate.model.call import Call, Expected, ExpectedChoice
from validate.reference.points import U32, Point, Points

LOGIT = Point(None, None, "fp32 logits (model.py, out_dtype of the gate; front.py, FP32 words of the mailbox)")
SCORE = Point(None, None, "sigmoid in fp32")
WEIGHT = Point(None, None, "fp32 until the bf16 output (front.py publish)")
TANH_APPROX = 2.0**-11  # largest relative error of tanh.approx.f32 (PTX ISA, floating point instructions: tanh)
TINY = 1e-20  # added to the sum of the chosen scores (front.py publish, primitives.py routing_weight)


def reference(call: Call, points: Points) -> dict[str, Expected | ExpectedChoice]:
    """Outputs ``ids`` int32 and ``weights`` bf16, [ranks, rows, 16] each, equal on all ranks.

    Inputs: ``x`` bf16 [rows, 7168], ``gate`` bf16 [896, 7168], ``bias`` fp32 [896], ``scaling``, ``top_k``, ``live``:
    rows of ``x`` that belong to a request. The rows after them are padding and may hold NaN: their ids must be
    distinct and in range, since the experts use them as an index; their weights are free.
    """
    i = call.inputs
    live, count = i["live"], i["top_k"]
    bias = i["bias"].double()
    product, product_error = points.matmul(i["x"], i["gate"])
    product, product_error = product[:live], product_error[:live]
    logit = points(LOGIT, product, product_error)
    approximate = points.path != "default" and call.shape["tp"] == 8 and call.shape["regime"] == 1
    score = points(SCORE, torch.sigmoid(logit), _sigmoid_error(logit, approximate))

    exact = torch.sigmoid(product)
    # A logit moves the score by at most the sigmoid's largest slope between the two.
    error = product_error * exact * (1 - exact) * product_error.exp() + _sigmoid_error(product, approximate)
    error = torch.where(product_error == 0, 0.0, error)  # a sum of zeros: exactly 0, and 1/2 in every form
    error = error + torch.where(bias == 0, 0.0, U32 * (exact + bias).abs())
    rows = i["x"].shape[0]
    scores = torch.zeros(rows, bias.numel(), dtype=torch.float64)
    errors = torch.full_like(scores, torch.inf)
    scores[:live], errors[:live] = exact + bias, error

    chosen = scores.topk(count).indices
    if "ids" in points.given:
        chosen = points.given["ids"][0].long().clamp(0, bias.numel() - 1)
    picked = score.gather(1, chosen[:live])
    weight = picked / (picked.sum(1, keepdim=True) + TINY) * i["scaling"]
    # 15 additions, a division and a product, one U32 each; approximate division: 2 ulp (PTX ISA, div.approx).
    weight = points(WEIGHT, weight, weight * U32 * (15 + 2 + 4))
    return {
        "ids": ExpectedChoice(scores, errors, count, replicated=True, twin=twins(i["gate"], i["bias"])),
        "weights": Expected(weight, (slice(0, live),), replicated=True, roundings=points.rounded),
    }


def twins(gate: Tensor, bias: Tensor) -> Tensor:
    """int64 [experts]: the next lower id with the same gate row and bias, or -1.

    Every kernel sums all rows of the gate in the same order, so equal rows give equal bits.
    """
    last: dict[bytes, int] = {}
    found = torch.full((bias.numel(),), -1)
    for expert, row in enumerate(gate.view(torch.int16).numpy()):
        key = row.tobytes() + bias[expert].numpy().tobytes()
        found[expert] = last.get(key, -1)
        last[key] = expert
    return found


def _sigmoid_error(logit: Tensor, approximate: bool) -> Tensor:
    """Absolute error of the fp32 sigmoid.

    Exact form: exp (2 ulp, and its argument's rounding if it goes through exp2), a sum and a division. Approximate
    form, ``0.5 * tanh.approx(x / 2) + 0.5`` (primitives.py routing_sigmoid): half of tanh's error and one rounding.
    """
    score = torch.sigmoid(logit)
    error = score * U32 * (8 + 2 * logit.abs()) + 2.0**-126
    if approximate:
        error = error + 0.5 * TANH_APPROX * torch.tanh(logit / 2).abs() + U32
    return error
