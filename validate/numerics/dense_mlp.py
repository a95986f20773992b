"""Cases of layer 0's dense MLP: one rank's partial. There is no TP 1: its weights would take 1.5 GB."""

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.model.draws import Draws
from validate.numerics.case import Case, prepared_rows
from validate.numerics.shared_experts import mlp_call, rows, weights
from validate.profiles import Profile

# The sizes that select another tile or split, or lie beside one. TP 8 runs the same kernels, twice as wide.
SIZES = {
    8: ((1, "trained"), (16, "saturated")),
    16: (
        (1, "trained"),
        (3, "saturated"),
        (8, "faint"),
        (5, "padded"),
        (12, "padded"),
        (16, "saturated"),
        (64, "trained"),
    ),
}


def cases(profile: Profile) -> list[Case]:
    """A few sizes at TP 8 and 16."""
    return [
        Case("dense_mlp", {"tp": tp, "batch": batch, "regime": prepared_rows(batch)}, inputs, seed)
        for seed in range(profile.seeds)
        for tp in profile.tp
        for batch, inputs in SIZES.get(tp, ())
    ]


def build(case: Case) -> Call:
    """Inputs as ``reference.dense_mlp`` names them; the kinds are those of the shared experts."""
    width = K3.dense_intermediate // case.sizes["tp"]
    gate_up, down = weights("dense_mlp", case.sizes["tp"], width, case.seed)
    return mlp_call(case, rows(Draws("dense_mlp", case.id), case), gate_up, down)
