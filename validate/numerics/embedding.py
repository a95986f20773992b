"""Cases of the token embedding: the whole vocabulary, all ranks, 128 of 7168 columns (all are gathered alike)."""

from functools import lru_cache

import torch
from torch import Tensor

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.model.draws import Draws
from validate.numerics.case import Case
from validate.profiles import Profile

COLUMNS = 128
INPUTS = ("boundaries", "outside", "zeros", "repeated")


def cases(profile: Profile) -> list[Case]:
    """Every batch with one kind of ids; each kind at two sizes, ids of both integer types."""
    found = []
    for seed in range(profile.seeds):
        for tp in profile.tp:
            for n, batch in enumerate(profile.batches if tp > 1 else (1, 8)):
                # At TP1 the default path indexes its table directly: ids outside are its caller's error.
                kinds = ("trained", INPUTS[n % 4]) if tp > 1 else ("trained", "zeros")
                for kind in kinds[n % 2 :] if batch <= 8 else kinds:
                    found.append(Case("embedding", {"tp": tp, "batch": batch, "bits": 32 << n % 2}, kind, seed))
            if tp > 1:
                for kind in INPUTS:
                    found.append(Case("embedding", {"tp": tp, "batch": 40, "bits": 64}, kind, seed))
    return found


def build(case: Case) -> Call:
    """Inputs as ``reference.embedding`` names them; ``bits`` is the width of an id.

    ``boundaries``: the first and the last ids of the ranks' shards, and of the vocabulary. ``outside``: every second
    id is negative or past the vocabulary, some by exactly one, some by a multiple of it. ``zeros``: rows of -0 and of
    the smallest subnormals. ``repeated``: all rows ask for the same id.
    """
    draws = Draws("embedding", case.id)
    tp, rows = case.sizes["tp"], case.sizes["batch"]
    ids = draws.integers((rows,), 0, K3.vocab)
    if case.inputs == "boundaries":
        edges = torch.arange(tp + 1) * (K3.vocab // tp)
        edges = torch.cat([edges[[0, -1]], edges[1:-1]])  # the vocabulary's own first
        edges = torch.stack([edges - 1, edges], 1).flatten()[1:]
        edges = edges[edges < K3.vocab]
        start = int(draws.integers((1,), 0, len(edges)))
        ids = edges.roll(-start)[torch.arange(rows) % len(edges)]
    if case.inputs == "outside":
        wrong = torch.tensor([-1, K3.vocab, -K3.vocab, K3.vocab + 1, -(2**31), 2**31 - 1, -2, 2 * K3.vocab])
        ids[::2] = wrong.roll(int(draws.integers((1,), 0, 8)))[torch.arange(len(ids[::2])) % 8]
    if case.inputs == "zeros":
        ids = ids // 64 * 64
    if case.inputs == "repeated":
        ids[:] = ids[0]
    inputs = {"ids": ids.to(torch.int32 if case.sizes["bits"] == 32 else torch.int64), "table": _table()}
    return Call("embedding", case.sizes, inputs, {"out": ((tp, rows, COLUMNS), torch.bfloat16)})


@lru_cache(maxsize=1)
def _table() -> Tensor:
    """bf16 [vocab, columns]; every 64th row has -0 and subnormals among its numbers."""
    table = Draws("embedding", "table").bell((K3.vocab, COLUMNS), 1.0, torch.bfloat16)
    table[::64, ::2] = -0.0
    table[::64, 1::4] = 2.0**-133
    return table
