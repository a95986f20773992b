"""Cases of the shared experts: one rank's partial, every prepared size and padded ones."""

from functools import lru_cache

import torch
from torch import Tensor

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.model.draws import Draws
from validate.model.synthetic import activation, linear_weight
from validate.numerics.case import Case, prepared_rows
from validate.profiles import Profile

INPUTS = ("trained", "saturated", "faint", "padded")


def cases(profile: Profile) -> list[Case]:
    """Every decode size and some verify sizes at TP 8 and 16, kernels of the neighbouring sizes; one row at TP 1."""
    found = []
    for seed in range(profile.seeds):
        for tp in profile.tp:
            batches = profile.batches if tp > 1 else profile.batches[:1]
            for n, batch in enumerate(batches):
                for inputs in (INPUTS[n % 3],) if tp == 1 or batch > 16 else ("trained", INPUTS[1 + n % 2]):
                    found.append(_case(tp, batch, prepared_rows(batch), inputs, seed))
            if tp == 1:
                continue
            # One row of TP 8 has tables for its activation; from 33 or 41 rows on the router's share the kernel.
            for batch, inputs in (
                (1, "faint"),
                (9, "trained"),
                (12, "trained"),
                (24, "trained"),
                (40, "saturated"),
                (48, "faint"),
            ):
                found.append(_case(tp, batch, batch, inputs, seed))
            for batch, regime in ((1, 2), (2, 3), (7, 8), (5, 16), (17, 32), (47, 48)):
                found.append(_case(tp, batch, regime, "padded", seed))
    return found


def _case(tp: int, batch: int, regime: int, inputs: str, seed: int) -> Case:
    return Case("shared_experts", {"tp": tp, "batch": batch, "regime": regime}, inputs, seed)


def build(case: Case) -> Call:
    """Inputs as ``reference.shared_experts`` names them."""
    draws = Draws("shared_experts", case.id)
    width = K3.shared_intermediate // case.sizes["tp"]
    gate_up, down = weights("shared_experts", case.sizes["tp"], width, case.seed)
    return mlp_call(case, rows(draws, case), gate_up, down)


def rows(draws: Draws, case: Case) -> Tensor:
    """bf16 [prepared rows, hidden].

    ``saturated``: gates and ups beyond both bounds of SiTU. ``faint``: so small that SiTU is a product. ``padded``: the
    rows past the live ones are NaN.
    """
    x = activation(draws, case.sizes["regime"], K3.hidden)
    x *= {"saturated": 16.0, "faint": 2.0**-12}.get(case.inputs, 1.0)
    if case.inputs == "padded":
        x[case.sizes["batch"] :] = float("nan")
    return x


def mlp_call(case: Case, x: Tensor, gate_up: Tensor, down: Tensor) -> Call:
    """A gated MLP of one rank; the partial is judged on the live rows."""
    inputs = {"x": x, "gate_up": gate_up, "down": down, "beta": K3.situ_beta, "linear_beta": K3.situ_linear_beta}
    return Call(case.stage, case.sizes, inputs, {"partial": ((case.sizes["batch"], K3.hidden), torch.bfloat16)})


@lru_cache(maxsize=2)
def weights(stage: str, tp: int, width: int, seed: int) -> tuple[Tensor, Tensor]:
    """bf16 [2 * width, hidden] and [hidden, width]: one rank's shards."""
    draws = Draws(stage, "weights", tp, seed)
    return linear_weight(draws, 2 * width, K3.hidden, 2.0), linear_weight(draws, K3.hidden, width)
