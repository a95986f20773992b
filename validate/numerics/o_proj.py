"""Cases of the output projection with its all-reduce: every rank, both kinds of layer, one-shot and two-shot sizes."""

from functools import lru_cache

import torch
from torch import Tensor

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.model.draws import Draws
from validate.model.synthetic import activation, linear_weight
from validate.numerics.case import Case, prepared_rows
from validate.paths.emulated.mailbox import armed
from validate.profiles import Profile

INPUTS = ("trained", "cancelling", "sentinel", "padded", "early")
SPARE = 2  # mailbox rows past the prepared ones, which nobody may touch


def cases(profile: Profile) -> list[Case]:
    """Every decode size at TP 8 and 16, some verify sizes, kernels of the neighbouring sizes; one rank at TP 1."""
    found = []
    for seed in range(profile.seeds):
        for tp in profile.tp:
            batches = profile.batches if tp > 1 else profile.batches[:1]
            for n, batch in enumerate(batches):
                large = batch > 16  # one case of each large size: half a second
                for inputs in (INPUTS[1 + n % 4],) if large else ("trained", INPUTS[1 + n % 4]):
                    found.append(_case(tp, batch, prepared_rows(batch), n, inputs, seed))
            if tp == 1:
                continue
            # Verify steps are prepared at multiples of their length: sizes between the plain ones.
            verified = ((9, "cancelling"), (12, "sentinel"), (24, "trained"), (40, "cancelling"), (48, "early"))
            for n, (batch, inputs) in enumerate(verified):
                found.append(_case(tp, batch, batch, n, inputs, seed))
            # Few rows in the kernel of a larger size: the rest is padding.
            for n, (batch, regime) in enumerate(((1, 2), (3, 8), (5, 16), (8, 16), (15, 32), (17, 32), (33, 64))):
                found.append(_case(tp, batch, regime, n, "padded", seed))
    return found


def _case(tp: int, batch: int, regime: int, n: int, inputs: str, seed: int) -> Case:
    sizes = {"tp": tp, "batch": batch, "regime": regime, "write": int(n % 3 == 2), "parity": n % 2}
    return Case("o_proj", sizes, inputs, seed)


def build(case: Case) -> Call:
    """Inputs as ``reference.o_proj`` names them.

    ``cancelling``: partials of 2**24, about 1, -2**24 and about 1 go round the ranks, so that every order of summation
    gives another result. ``sentinel``: the partials of every third row are pairs that round to (+0, -0), and
    subnormals. ``padded``: the rows past the live ones are NaN. ``early``: fast ranks have already published the next
    layer in the other half of the mailbox.
    """
    draws = Draws("o_proj", case.id)
    tp, batch, regime = (case.sizes[name] for name in ("tp", "batch", "regime"))
    width = K3.heads * K3.head_dim // tp
    local = activation(draws, tp * regime, width)
    by_rank = local.view(tp, regime, width)
    weight = _weight(tp, case.seed, case.inputs)
    if case.inputs == "cancelling":
        steps = torch.arange(tp)[:, None] + torch.arange(regime)
        by_rank[:, :, 0] = torch.tensor([2.0**24, 1.0, -(2.0**24), 1.0])[steps % 4].bfloat16()
    if case.inputs == "sentinel":
        by_rank[:, ::3] = 0.0
        by_rank[:, ::3, 0] = 2.0**-70
    if case.inputs == "padded":
        by_rank[:, batch:] = float("nan")
    mailbox = armed((2, tp, regime + SPARE, K3.hidden))
    if case.inputs == "early":
        other = 1 - case.sizes["parity"]
        mailbox[other, ::2, :regime] = activation(draws, tp // 2 * regime, K3.hidden).view(-1, regime, K3.hidden)
    return Call(
        "o_proj",
        case.sizes,
        {"local": local, "weight": weight},
        {"delta": ((tp, batch, K3.hidden), torch.bfloat16)},
        {
            "prefix": activation(draws, batch, K3.hidden).expand(tp, -1, -1).clone(),
            "mailbox": mailbox,
            "gather": armed((2, regime + SPARE, K3.hidden)),
        },
    )


@lru_cache(maxsize=4)
def _weight(tp: int, seed: int, inputs: str) -> Tensor:
    """bf16 [hidden, K]: one rank's shard. What the special inputs multiply into column 0 is exact."""
    weight = linear_weight(Draws("o_proj", "weight", tp, seed), K3.hidden, K3.heads * K3.head_dim // tp)
    if inputs == "cancelling":
        weight[:, 0] = 1.0
    if inputs == "sentinel":
        # Times 2**-70: +-2**-136 rounds to a zero of its sign, -2**-131 is a subnormal bf16.
        weight[:, 0] = torch.tensor([2.0**-66, -(2.0**-66), 2.0**-66, -(2.0**-61)]).repeat(K3.hidden // 4).bfloat16()
    return weight
