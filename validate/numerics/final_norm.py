"""Cases of the model's final norm."""

import torch

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.model.draws import Draws
from validate.model.synthetic import activation, norm_weight
from validate.numerics.case import Case
from validate.profiles import Profile

INPUTS = ("faint", "zeros", "large", "spike")


def cases(profile: Profile) -> list[Case]:
    """Every batch with trained inputs and one special kind. All ranks compute the same: no TP size."""
    found = []
    for seed in range(profile.seeds):
        for n, batch in enumerate(profile.batches):
            for inputs in ("trained", INPUTS[n % len(INPUTS)]):
                found.append(Case("final_norm", {"batch": batch}, inputs, seed))
    return found


def build(case: Case) -> Call:
    """Inputs as ``reference.final_norm`` names them.

    ``faint``: rows so small that the epsilon is felt. ``zeros``: the first row is 0. ``large``: rows of about 2**40,
    whose squares stay in fp32's range. ``spike``: one channel holds nearly all of a row's norm, another one in each
    row.
    """
    draws = Draws("final_norm", case.id)
    rows = case.sizes["batch"]
    x = activation(draws, rows, K3.hidden)
    if case.inputs == "faint":
        x = x * 2.0**-9
    if case.inputs == "zeros":
        x[0] = 0.0
    if case.inputs == "large":
        x = x * 2.0**40
    if case.inputs == "spike":
        x[torch.arange(rows), draws.integers((rows,), 0, K3.hidden)] = 2.0**14
    inputs = {"x": x, "weight": norm_weight(draws, K3.hidden), "eps": K3.rms_eps}
    return Call("final_norm", case.sizes, inputs, {"out": ((rows, K3.hidden), torch.bfloat16)})
