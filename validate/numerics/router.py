"""Cases of the router: all ranks of a TP group, all 896 experts."""

from functools import lru_cache

import torch
from torch import Tensor

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.model.draws import Draws
from validate.model.synthetic import activation, linear_weight
from validate.numerics.case import Case, prepared_rows
from validate.profiles import Profile

INPUTS = ("tied", "close", "saturated", "biased", "cancelling", "padded", "zeros")
# The smallest shard of a rank, at TP16: the groups of tied experts lie across its multiples.
SHARD = K3.experts // 16
BLOCK = 32


def cases(profile: Profile) -> list[Case]:
    """Every decode size at every TP with trained and special inputs, other sizes and regimes beside the boundaries."""
    found = []
    for seed in range(profile.seeds):
        for tp in profile.tp:
            # One rank computes all rows at TP1, in one order: a few sizes cover it.
            batches = profile.batches if tp > 1 else [b for b in profile.batches if b in (1, 8)]
            for n, batch in enumerate(batches):
                sizes = {"tp": tp, "batch": batch, "regime": prepared_rows(batch)}
                found.append(Case("router", sizes, "trained", seed))
                found.append(Case("router", sizes, INPUTS[(n + tp) % len(INPUTS)], seed))
            if tp == 1:
                continue
            for batch, regime in ((9, 16), (33, 64), (1, 2), (2, 1), (3, 2), (4, 5), (5, 4), (16, 8), (64, 32)):
                if batch <= 16 or (batch, regime) in ((33, 64), (64, 32)):
                    found.append(Case("router", {"tp": tp, "batch": batch, "regime": regime}, "trained", seed))
            for inputs in INPUTS:  # each where a step has one or two rows, and where it has many
                found.append(Case("router", {"tp": tp, "batch": 2, "regime": 2}, inputs, seed))
                found.append(Case("router", {"tp": tp, "batch": 12, "regime": 16}, inputs, seed))
    return list(dict.fromkeys(found))


def build(case: Case) -> Call:
    """Inputs as ``reference.router`` names them.

    ``tied``: triples of experts with equal gate rows and biases, across and inside rank boundaries, fill the 16 places
    and one triple is cut by the last of them. ``close``: the same triples, apart by less than the error of an fp32
    logit. ``saturated``: scores of 0 and 1, so that the bias alone decides. ``biased``: biases of -2 and 2.
    ``cancelling``: two blocks of channels cancel that exceed all others by 2**10. ``padded``: the last quarter of the
    rows (at least one, but not all) is NaN. ``zeros``: rows of 0 and -0 and no bias: all experts tie.
    """
    draws = Draws("router", case.id)
    tp, rows = case.sizes["tp"], case.sizes["batch"]
    x = activation(draws, rows, K3.hidden)
    bias = draws.bell((K3.experts,), 0.05).float()
    kind = case.inputs if case.inputs in ("tied", "close") else "plain"
    gate = _gate(kind)
    live = rows
    if kind != "plain":
        groups = _groups()
        bias[groups] = 1.0 + bias[groups[:, :1]]
    if case.inputs == "saturated":
        x = x * 32
    if case.inputs == "biased":
        bias = bias + 2.0 * draws.integers((K3.experts,), -1, 2)
    if case.inputs == "cancelling":
        x[:, :BLOCK] = draws.bell((rows, BLOCK), 2.0**10).bfloat16()
        x[:, -BLOCK:] = -x[:, :BLOCK]
    if case.inputs == "padded" and rows > 1:
        live = rows - max(1, rows // 4)
        x[live:] = float("nan")
    if case.inputs == "zeros":
        x[0] = 0.0
        x[-1, 1::2] = -0.0
        x[-1, ::2] = 0.0
        bias = torch.zeros_like(bias)
    shape = (tp, rows, K3.top_k)
    return Call(
        "router",
        case.sizes,
        {
            "x": x,
            "gate": gate,
            "bias": bias,
            "scaling": 2.5 if case.inputs == "biased" else K3.routed_scaling,  # 1.0 in K3's configuration: hides its loss
            "top_k": K3.top_k,
            "live": live,
        },
        {"ids": (shape, torch.int32), "weights": (shape, torch.bfloat16)},
    )


def _groups() -> Tensor:
    """int64 [15, 3]: triples of ids on both sides of a TP16 rank boundary (every second is a TP8 boundary, too)."""
    first = torch.arange(SHARD, K3.experts, SHARD)
    return torch.stack([first - 1, first, first + 23], 1)


@lru_cache(maxsize=3)
def _gate(kind: str) -> Tensor:
    """bf16 [896, 7168]. The last block of channels repeats the first, so that inputs of opposite signs there cancel."""
    gate = linear_weight(Draws("router", "gate"), K3.experts, K3.hidden)
    gate[:, -BLOCK:] = gate[:, :BLOCK]
    if kind != "plain":
        groups = _groups()
        gate[groups] = gate[groups[:, :1]]
    if kind == "close":
        # One weight differs by 2**-20 from member to member: less than the error of an fp32 sum of 7168 products.
        for member, weight in enumerate((0.0, 2.0**-20, -(2.0**-20))):
            gate[groups[:, member], 100] = weight
    return gate
