"""Cases of the attention layers' fused input projections: both kinds of layer, one rank."""

from functools import lru_cache

import torch
from torch import Tensor

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.model.draws import Draws
from validate.model.synthetic import activation, linear_weight
from validate.numerics.case import Case, prepared_rows
from validate.profiles import Profile

INPUTS = ("blocks", "padded", "large", "rows")
BLOCK = 64


def cases(profile: Profile) -> list[Case]:
    """Every decode size of both layer kinds at TP 8 and 16, and few rows in the kernels of larger sizes.

    At TP 1 only MLA, as the specialized path does not exist there and the default's matrix product is the same but for
    its width.
    """
    found = []
    for seed in range(profile.seeds):
        for tp in profile.tp:
            for mla in (0, 1) if tp > 1 else ():
                # The kernels of 3 to 8 rows are the same: MLA takes every second size.
                for n, batch in enumerate(profile.batches[:: 1 + mla]):
                    inputs = INPUTS[(n + mla) % 4]
                    found.append(_case(tp, batch, prepared_rows(batch), mla, inputs, seed))
                    if batch in (1, 2, 3, 16):  # a size of each kernel
                        found.append(_case(tp, batch, batch, mla, "trained", seed))
                # Verify steps are prepared at multiples of their length; others are padded to a prepared size.
                for batch, regime in ((1, 2), (2, 4), (9, 9), (12, 16), (17, 32)):
                    found.append(_case(tp, batch, regime, mla, "padded" if batch < regime else "trained", seed))
            if tp == 1:
                found.append(_case(1, 4, 4, 1, "trained", seed))
    return list(dict.fromkeys(found))


def _case(tp: int, batch: int, regime: int, mla: int, inputs: str, seed: int) -> Case:
    return Case("input_projection", {"tp": tp, "batch": batch, "regime": regime, "mla": mla}, inputs, seed)


def build(case: Case) -> Call:
    """Inputs as ``reference.input_projection`` names them.

    ``blocks``: one block of 64 channels in each part of K holds nearly all of the product, another one in each row, so
    that a lost part shows in single rows. ``padded``: the rows past the live ones are NaN. ``large``: rows of 2**40.
    ``rows``: each row has its own power of two, 2**-20 ... 2**20.
    """
    draws = Draws("input_projection", case.id)
    batch, regime = case.sizes["batch"], case.sizes["regime"]
    x = activation(draws, regime, K3.hidden)
    if case.inputs == "blocks":
        by_block = x.view(regime, -1, BLOCK)
        by_block *= 2.0**-6
        by_block[torch.arange(regime), draws.integers((regime,), 0, K3.hidden // BLOCK)] *= 2.0**10
    if case.inputs == "padded":
        x[batch:] = float("nan")
    if case.inputs == "large":
        x = x * 2.0**40
    if case.inputs == "rows":
        x = x * torch.exp2(draws.integers((regime, 1), -20, 21).double()).bfloat16()
    weight = _weight(case.sizes["tp"], case.sizes["mla"])
    shape = (regime, weight.shape[0])
    return Call("input_projection", case.sizes, {"x": x, "weight": weight}, {"projected": (shape, torch.bfloat16)})


@lru_cache(maxsize=2)
def _weight(tp: int, mla: int) -> Tensor:
    """bf16 [n, hidden]: one rank's rows. KDA's padding to a multiple of 16 is 0."""
    rows = K3.mla_projection_rows(tp) if mla else K3.kda_projection_rows(tp)
    weight = linear_weight(Draws("input_projection", "weight", tp, mla), rows, K3.hidden)
    if not mla:
        heads = K3.heads // tp
        weight[4 * heads * K3.head_dim + K3.head_dim + heads :] = 0.0
    return weight
