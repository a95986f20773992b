"""Cases of the DSpark drafter's context: rows of new target tokens in the latent caches of the draft layers."""

from functools import lru_cache

import torch
from torch import Tensor

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.model.draws import Draws
from validate.model.synthetic import activation, linear_weight, norm_weight
from validate.numerics.case import Case
from validate.profiles import Profile

INPUTS = ("trained", "padded", "shared", "faint", "saturated")
LAYERS = 5  # of the drafter: dspark_mla.py projects 5 * 576 rows
TARGETS = 1  # target layers that feed it: the checkpoint says how many, and each only lengthens one sum
BLOCK = 64  # tokens of a page
POSITIONS = 4096  # of the table


def cases(profile: Profile) -> list[Case]:
    """A token, a window, windows of several requests; each kind of input with either cache. Every rank does the same."""
    found = []
    for seed in range(profile.seeds):
        for n, batch in enumerate((1, 3, 8, 32)):
            for fp8 in (0, 1):
                for inputs in ("trained", INPUTS[1 + (n + 2 * fp8) % 4]):
                    found.append(Case("draft_context", {"batch": batch, "fp8": fp8}, inputs, seed))
    return found


def build(case: Case) -> Call:
    """Inputs as ``reference.draft_context`` names them.

    ``padded``: every third token, but for the first, is padding: slot -1 on all layers, NaN states; one more has no slot on the
    second layer. ``shared``: one slot mapping for all layers. ``faint``: states so small that the epsilons are felt.
    ``saturated``: scales so small that much of an E4M3 row is beyond its largest number.
    """
    draws = Draws("draft_context", case.id)
    tokens, fp8 = case.sizes["batch"], bool(case.sizes["fp8"])
    states = activation(draws, tokens, TARGETS * K3.hidden)
    if case.inputs == "faint":
        states = states * 2.0**-9
    pages = 2 + -(-tokens // BLOCK)
    order = [draws.permutation(pages * BLOCK)[:tokens] for _ in range(LAYERS)]
    slots = torch.stack(order) if case.inputs != "shared" else order[0]
    if case.inputs == "padded":
        slots[:, 2::3] = -1
        states[2::3] = float("nan")
        slots[1, -1] = -1
    scales = 2.0 ** draws.integers((LAYERS,), -4, 1).double() * (1 + draws.uniform((LAYERS,)))
    if case.inputs == "saturated":
        scales = scales * 2.0**-7
    # A rotation by a rational half tangent: exact on any machine up to its one rounding.
    half = draws.uniform((POSITIONS, K3.qk_rope // 2)) * 4 - 2
    table = torch.cat([(1 - half**2) / (1 + half**2), 2 * half / (1 + half**2)], 1).float()
    dtype = torch.float8_e4m3fn if fp8 else torch.bfloat16
    cache = draws.bell((LAYERS, pages, BLOCK, K3.mla_row), 8.0, torch.float32).to(dtype)
    weights = _weights()
    inputs = {
        "states": states,
        **weights,
        "table": table,
        "positions": draws.permutation(POSITIONS)[:tokens],
        "slots": slots,
        "scales": scales.float() if fp8 else None,
        "eps": K3.rms_eps,
    }
    return Call("draft_context", case.sizes, inputs, {"context": ((tokens, K3.hidden), torch.bfloat16)}, {"cache": cache})


@lru_cache(maxsize=1)
def _weights() -> dict[str, Tensor]:
    draws = Draws("draft_context", "weights")
    return {
        "context_proj": linear_weight(draws, K3.hidden, TARGETS * K3.hidden),
        "context_norm": norm_weight(draws, K3.hidden),
        "kv_proj": linear_weight(draws, LAYERS * K3.mla_row, K3.hidden),
        "kv_norm": torch.stack([norm_weight(draws, K3.kv_lora) for _ in range(LAYERS)]),
    }
