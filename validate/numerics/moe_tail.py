"""Cases of the MoE tail: every rank, one-kernel and published sizes, mailboxes left over by other batch sizes.

There is no TP 1: without a group the default path runs none of this (KimiRoutedOutputTransform), and the specialized
one not at all.
"""

from functools import lru_cache

import torch
from torch import Tensor

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.model.draws import Draws
from validate.model.synthetic import activation, linear_weight, norm_weight
from validate.numerics.case import Case
from validate.paths.emulated.mailbox import armed
from validate.profiles import Profile

INPUTS = ("trained", "cancelling", "sentinel", "sparse")
SPARE = 2  # mailbox rows that nobody may touch
POOL = 256  # routed rows that are drawn; a case mixes them


def cases(profile: Profile) -> list[Case]:
    """Every decode size and some verify sizes at TP 8 and 16; previous steps with more rows at the first layer."""
    found = []
    for seed in range(profile.seeds):
        for tp in (tp for tp in profile.tp if tp > 1):
            for n, batch in enumerate(profile.batches):
                large = batch > 16  # one case of each large size: up to a second
                for inputs in (INPUTS[n % 4],) if large else ("trained", INPUTS[1 + n % 3]):
                    found.append(_case(tp, batch, batch, inputs, seed))
            for n, batch in enumerate((9, 12, 24, 33)):
                found.append(_case(tp, batch, batch, INPUTS[n], seed))
            for batch in (2, 16):
                found.append(_case(tp, batch, batch, "faint", seed))
            # At a step's first layer the mailbox may hold the last step's last layer, of any prepared size.
            for batch, rearm in ((1, 8), (2, 64), (4, 16), (16, 32)):
                found.append(_case(tp, batch, rearm, "trained", seed))
    return found


def _case(tp: int, batch: int, rearm: int, inputs: str, seed: int) -> Case:
    return Case("moe_tail", {"tp": tp, "batch": batch, "rearm": rearm}, inputs, seed)


def build(case: Case) -> Call:
    """Inputs as ``reference.moe_tail`` names them.

    ``cancelling``: latent partials and shared rows of 2**24, about 1, -2**24 and about 1 go round the ranks.
    ``sentinel``: routed and shared rows of every third token are (+0, -0) pairs and subnormals. ``sparse``: 16 latent
    channels, exact up to the norm, and squares midway between two bf16: no intermediate is near a boundary, so that
    each rounding point shows. ``faint``: rows so small that the epsilon of the latent norm is felt.
    """
    draws = Draws("moe_tail", case.id)
    tp, batch, rearm = (case.sizes[name] for name in ("tp", "batch", "rearm"))
    pool = _pool(case.seed)
    routed = pool[draws.integers((tp, batch, K3.top_k), 0, POOL)]
    weights = draws.uniform((batch, K3.top_k)) + 0.05
    weights = (weights / weights.sum(-1, keepdim=True)).bfloat16()
    shared = activation(draws, tp * batch, K3.hidden).view(tp, batch, K3.hidden)
    steps = (torch.arange(tp)[:, None] + torch.arange(batch)) % 4
    if case.inputs == "cancelling":
        large = torch.tensor([2.0**24, 1.0, -(2.0**24), 1.0])[steps].bfloat16()
        weights[:, 0] = 1.0
        routed[:, :, 0, ::3] = large[..., None]
        shared[:, :, ::5] = torch.where(large.abs() > 1, large, shared[:, :, 0])[..., None]
    if case.inputs == "faint":
        routed = routed * 2.0**-9
    if case.inputs == "sentinel":
        routed[:, ::3] = 0.0
        weights[:, 0] = 0.5
        # Halved, the smallest bf16 rounds to a zero of its sign (ties to even), and three times it stays a subnormal.
        routed[:, ::3, 0] = torch.tensor([2.0**-133, -(2.0**-133), 1.0, -3 * 2.0**-133]).repeat(K3.latent // 4).bfloat16()
        shared[:, ::3] = torch.tensor([0.0, -0.0, 1.0, -(2.0**-133)]).repeat(K3.hidden // 4).bfloat16()
    if case.inputs == "sparse":
        weights[:, 0] = 1.0
        channels = draws.permutation(K3.latent)[:16]
        routed = torch.zeros_like(routed)
        size = torch.exp2(draws.integers((batch, 16), -1, 2).double()) * (1 + 8 / 128)  # its square lies midway: 1.12890625
        routed[:, :, 0, channels] = torch.where(draws.integers((batch, 16), 0, 2) == 0, size, -size).bfloat16()
    slots = max(batch, rearm) + SPARE
    buffers = {name: armed((tp, slots, width)) for name, width in (("latent", K3.latent), ("shared_box", K3.hidden))}
    for name, width in (("latent_old", K3.latent), ("shared_old", K3.hidden)):
        buffers[name] = armed((tp, slots, width))
        buffers[name][:, :rearm] = pool[:rearm].repeat(1, 2)[:, :width]
    return Call(
        "moe_tail",
        case.sizes,
        {
            "routed": routed,
            "weights": weights,
            "shared": shared,
            "norm": norm_weight(draws, K3.latent),
            "up": _up(case.seed),
            "eps": K3.rms_eps,
        },
        {"out": ((tp, batch, K3.hidden), torch.bfloat16)},
        buffers,
    )


@lru_cache(maxsize=2)
def _up(seed: int) -> Tensor:
    """bf16 [hidden, latent]: the up projection of all ranks."""
    return linear_weight(Draws("moe_tail", "up", seed), K3.hidden, K3.latent)


@lru_cache(maxsize=2)
def _pool(seed: int) -> Tensor:
    """bf16 [POOL, latent]: rows as the experts' second product leaves them."""
    return activation(Draws("moe_tail", "routed", seed), POOL, K3.latent)
