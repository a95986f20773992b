"""Cases of the logits and the greedy token: all ranks, 2048 of the head's 163840 rows (each stands for itself)."""

from functools import lru_cache

import torch
from torch import Tensor

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.model.draws import Draws
from validate.model.synthetic import activation, linear_weight
from validate.numerics.case import Case
from validate.profiles import Profile

VOCAB = 2048
INPUTS = ("tied", "close", "edges", "flat")
BOUNDARIES = 15  # between the shards of 16 ranks; every second one is a boundary of 8 ranks, too


def cases(profile: Profile) -> list[Case]:
    """Every batch at TP 8 and 16 with one or two kinds of inputs; two sizes at TP1."""
    found = []
    for seed in range(profile.seeds):
        for tp in profile.tp:
            for n, batch in enumerate(profile.batches if tp > 1 else (1, 8)):
                kinds = ("trained", INPUTS[(n + tp // 8) % 4]) if batch <= 4 else (INPUTS[(n + tp // 8) % 4],)
                found += [Case("logits", {"tp": tp, "batch": batch}, kind, seed) for kind in kinds]
            if tp > 1:
                found += [Case("logits", {"tp": tp, "batch": batch}, "tied", seed) for batch in (2, 12)]
                found += [Case("logits", {"tp": tp, "batch": batch}, "close", seed) for batch in (3, 15)]
    return list(dict.fromkeys(found))


def build(case: Case) -> Call:
    """Inputs as ``reference.logits`` names them.

    ``tied``: each row's largest logit belongs to two equal rows of the head, on both sides of a boundary between
    ranks. ``close``: the second of them is larger by less than a bf16 ulp. ``edges``: the largest logit is that of a
    shard's first or last row; in the first row and the last that of the head's first and last row. ``flat``: all logits of
    a row are within a few ulps of each other, so that many tie.
    """
    draws = Draws("logits", case.id)
    tp, rows = case.sizes["tp"], case.sizes["batch"]
    x = activation(draws, rows, K3.hidden)
    head = _head()
    first = (1 + torch.arange(rows) % BOUNDARIES) * (VOCAB // 16) - 1 - torch.arange(rows) // BOUNDARIES
    second = first + 1 + 2 * (torch.arange(rows) // BOUNDARIES)
    if case.inputs in ("tied", "close", "edges"):
        head = head.clone()
        signs = torch.where(x < 0, -1.0, 1.0) * 2.0**-5
        edges = torch.where(torch.arange(rows) % 2 == 0, first, second)
        edges[0], edges[-1] = 0, VOCAB - 1
        head[edges if case.inputs == "edges" else first] = signs.bfloat16()
    if case.inputs in ("tied", "close"):
        head[second] = head[first]
    if case.inputs == "close":
        head[second, 100] *= 1 + 2.0**-7  # one weight's last bit: 2**-12 of x[100] in a logit of about 180
    if case.inputs == "flat":
        head = (head[:1].float() + 2.0**-9 * head.float()).bfloat16()
    shape = (tp, rows, VOCAB)
    outputs = {"logits": (shape, torch.bfloat16), "token": ((tp, rows, 1), torch.int64)}
    return Call("logits", case.sizes, {"x": x, "head": head}, outputs)


@lru_cache(maxsize=1)
def _head() -> Tensor:
    """bf16 [VOCAB, hidden]."""
    return linear_weight(Draws("logits", "head"), VOCAB, K3.hidden, 2.0)
