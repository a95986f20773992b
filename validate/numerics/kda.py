"""Cases of Kimi Delta Attention: plain decode and verify steps of one rank, with state, null slots and padded rows."""

import torch

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.model.draws import Draws
from validate.model.synthetic import activation, gate_logits, linear_weight, norm_weight
from validate.numerics.case import Case, prepared_rows
from validate.profiles import Profile

INPUTS = ("trained", "padded", "recycled", "saturated", "faint")


def cases(profile: Profile) -> list[Case]:
    """Every decode size and verify shape at every TP; each kind of input at some of them."""
    found = []
    for seed in range(profile.seeds):
        for tp in profile.tp:
            batches = profile.batches if tp > 1 else [b for b in profile.batches if b <= 2]  # 96 heads: 6 MB a slot
            for n, batch in enumerate(batches):
                for inputs in ("trained", INPUTS[1 + n % 4]):
                    sizes = {"tp": tp, "batch": batch, "q": 1, "regime": prepared_rows(batch)}
                    found.append(Case("kda", sizes, inputs, seed))
            # The same rows in the kernels of the neighbouring sizes: an end-to-end run never meets them.
            for batch, regime in ((1, 2), (2, 1), (8, 16), (16, 8), (32, 64), (16, 32)) if tp > 1 else ():
                found.append(Case("kda", {"tp": tp, "batch": batch, "q": 1, "regime": regime}, "trained", seed))
            for q in profile.queries:
                for requests in (1, 2, 4, 8, 16):
                    if requests * q <= (64 if tp == 16 else 16 if tp == 8 else 4):
                        sizes = {"tp": tp, "batch": requests * q, "q": q, "regime": requests * q}
                        found.append(Case("kda", sizes, INPUTS[(requests + q) % 5], seed))
    return found


def build(case: Case) -> Call:
    """Inputs as ``reference.kda`` names them.

    ``padded``: the last quarter of the requests (at least one, but not all) is padding, slot 0 or -1 with NaN inputs;
    in a verify step, the first request has no slot for its last token's state.
    ``recycled``: the slots hold the large state of a finished request. ``saturated``: gates and decays at both ends.
    ``faint``: queries and keys so small that the epsilon under their l2 norm is felt.
    """
    draws = Draws("kda", case.id)
    heads, dim = K3.heads // case.sizes["tp"], K3.head_dim
    width, rows, q = heads * dim, case.sizes["batch"], case.sizes["q"]
    requests, pool = rows // q, rows + 3
    order = draws.permutation(pool)[:rows] + 1  # slot 0 is the null slot
    slots = order.reshape(requests, q).int()
    accepted = draws.integers((requests,), 1, q + 1).int()
    x = activation(draws, rows, 3 * width)
    gate = gate_logits(draws, (rows, width))
    f_a = activation(draws, rows, dim)
    dt_bias = draws.bell((width,)).float()
    if case.inputs == "saturated":
        dt_bias = dt_bias * 64
    conv = draws.bell((pool + 1, 3 * width, 3 if q == 1 else q + 2)).bfloat16()
    scale = 64.0 if case.inputs == "recycled" else 0.25
    state = draws.bell((pool + 1, heads, dim, dim), scale, torch.float32)
    if case.inputs == "faint":
        x[:, : 2 * width] *= 2.0**-10
        conv[:, : 2 * width] *= 2.0**-10
    if case.inputs == "padded":
        dead = max(1, requests // 4) if requests > 1 else 0
        for n in range(dead):
            slots[requests - 1 - n] = 0 if n % 2 == 0 else -1
            accepted[requests - 1 - n] = 1
            x[rows - (n + 1) * q : rows - n * q] = float("nan")
        if q > 1:  # a live request whose last token has no slot for its state
            slots[0, -1] = 0
            accepted[0] = accepted[0].clamp_max(q - 1)
        state[0] = float("nan")  # whoever reads the null slot shows it
        conv[0] = float("nan")
    return Call(
        "kda",
        case.sizes,
        {
            "x": x,
            "gate": gate,
            "f_a": f_a,
            "beta": gate_logits(draws, (rows, heads)),
            "f_b": linear_weight(draws, width, dim),
            "conv_weight": draws.bell((3 * width, K3.conv_width), 0.5).bfloat16().float(),
            "a_log": draws.bell((heads,), 0.5).float(),
            "dt_bias": dt_bias,
            "norm": norm_weight(draws, dim).float(),
            "slots": slots,
            "accepted": accepted,
            "lower_bound": K3.gate_lower_bound,
            "l2_eps": K3.l2_eps,
            "norm_eps": K3.rms_eps,
        },
        {"out": ((rows, width), torch.bfloat16)},
        {"conv": conv, "state": state},
    )
