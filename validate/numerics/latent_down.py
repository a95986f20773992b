"""Cases of the projection into the experts' latent space: all ranks of a TP group."""

from functools import lru_cache

from torch import Tensor

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.model.draws import Draws
from validate.model.synthetic import activation, linear_weight
from validate.numerics.case import Case, prepared_rows
from validate.profiles import Profile

BLOCK = 32
INPUTS = ("cancelling", "zeros", "padded")


def cases(profile: Profile) -> list[Case]:
    """Every decode size, special inputs below and above eight rows, other sizes and regimes beside the boundaries."""
    found = []
    for seed in range(profile.seeds):
        for tp in profile.tp:
            for batch in profile.batches if tp > 1 else [b for b in profile.batches if b == 8]:
                sizes = {"tp": tp, "batch": batch, "regime": prepared_rows(batch)}
                found.append(Case("latent_down", sizes, "trained", seed))
            if tp == 1:
                continue
            for batch, regime in ((1, 2), (2, 3), (4, 5), (9, 16), (33, 64)):
                found.append(Case("latent_down", {"tp": tp, "batch": batch, "regime": regime}, "trained", seed))
            for n, inputs in enumerate(INPUTS):
                for batch in (1 + n % 2, 4, 16):
                    sizes = {"tp": tp, "batch": batch, "regime": prepared_rows(batch)}
                    found.append(Case("latent_down", sizes, inputs, seed))
    return found


def build(case: Case) -> Call:
    """Inputs as ``reference.latent_down`` names them.

    ``cancelling``: two blocks of channels cancel that exceed all others by 2**10. ``zeros``: a row whose results round to
    zeros of both signs (pairs of +0 and -0 are the mailbox's sentinel), one of -0, and one so small that its products are
    subnormal. ``padded``: the last quarter of the rows (at least one, but not all) is NaN.
    """
    draws = Draws("latent_down", case.id)
    tp, rows = case.sizes["tp"], case.sizes["batch"]
    x = activation(draws, rows, K3.hidden)
    live = rows
    if case.inputs == "cancelling":
        x[:, :BLOCK] = draws.bell((rows, BLOCK), 2.0**10).bfloat16()
        x[:, -BLOCK:] = -x[:, :BLOCK]
    if case.inputs == "zeros":
        x[-1] = 2.0**-126 * x[-1]
        x[0] = 0.0
        x[0, 0] = 2.0**-131  # times weights of about 2**-6: below half of bf16's smallest number, 2**-134
        if rows > 2:
            x[1] = -0.0
    if case.inputs == "padded" and rows > 1:
        live = rows - max(1, rows // 4)
        x[live:] = float("nan")
    inputs = {"x": x, "weight": _weight(), "live": live}
    return Call("latent_down", case.sizes, inputs, {"out": ((tp, rows, K3.latent), x.dtype)})


@lru_cache(maxsize=1)
def _weight() -> Tensor:
    """bf16 [3584, 7168]. The last block of channels repeats the first: opposite inputs there cancel."""
    weight = linear_weight(Draws("latent_down", "weight"), K3.latent, K3.hidden)
    weight[:, -BLOCK:] = weight[:, :BLOCK]
    return weight
