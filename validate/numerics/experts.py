"""Cases of the routed experts: one rank, 24 experts that stand for the 896."""

from dataclasses import replace
from functools import lru_cache

import torch

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.model.draws import Draws
from validate.model.microscaling import BLOCK, SCALE_BIAS, Packed, packed_weight
from validate.model.synthetic import activation
from validate.numerics.case import Case, prepared_rows
from validate.profiles import Profile

EXPERTS = 24  # more than the 16 that every token takes, few enough that tokens share them
INPUTS = ("levels", "maxima", "cancelling", "outliers", "zeros", "padded", "subnormal", "crowded")
LARGEST = 7  # ``graded``: the channel of every block that sets its scale and meets zeros only
# Through weights that are E2M1 numbers times 2**-9 ... 2**-6, this one channel gives 13 up values and, behind a
# saturated gate, 13 hidden values. All lie at least half a percent from the middle of two E4M3 numbers, so that no
# approximate instruction moves one across; 61.7, the largest of one block in eight, saturates under a floored scale
# (1.93 * 2**5: 56, not 60).
LEVEL = 384.0
# Largest magnitudes of a block beside the boundaries of the scale: 1.75, and 1.8125, from where on the result differs,
# too.
MAXIMA = (1.75, 1.7578125, 1.8125, 1.8203125, 1.9921875, 1.0, 1.7421875, 1.5)


def cases(profile: Profile) -> list[Case]:
    """Every decode size, special inputs below and above eight rows, and fewer rows than the kernel was prepared for."""
    found = []
    for seed in range(profile.seeds):
        for tp in profile.tp:
            if tp == 1:  # one rank would hold 3072 hidden channels of each expert: 12 times the weights, nothing new
                continue
            for batch in profile.batches:
                sizes = {"tp": tp, "batch": batch, "regime": prepared_rows(batch)}
                found.append(Case("experts", sizes, "trained", seed))
            for batch, regime in ((1, 2), (2, 3), (3, 4), (5, 8), (7, 16), (33, 64)):
                found.append(Case("experts", {"tp": tp, "batch": batch, "regime": regime}, "trained", seed))
            for n, inputs in enumerate(INPUTS):
                for batch in (1 + n % 2 if n % 4 < 2 else 4 + n % 3, 12):
                    sizes = {"tp": tp, "batch": batch, "regime": prepared_rows(batch)}
                    found.append(Case("experts", sizes, inputs, seed))
            found.append(Case("experts", {"tp": tp, "batch": 2, "regime": 2}, "graded", seed))
    # Equal weights side by side: each is decoded once.
    return sorted(dict.fromkeys(found), key=lambda case: (case.sizes["tp"], case.inputs in OWN_WEIGHTS, case.inputs))


def build(case: Case) -> Call:
    """Inputs as ``reference.experts`` names them.

    ``levels``: one channel a row and a saturated gate: hidden values off every rounding boundary, so that nothing but
    FC2's own arithmetic is left open. ``maxima``: largest magnitudes of the blocks beside the boundaries of the scale.
    ``cancelling``: two blocks of channels cancel that exceed all others by 2**8. ``outliers``: single channels 2**10
    above their block. ``zeros``: whole rows and blocks of zeros. ``subnormal``: blocks below fp32's and E8M0's ranges.
    ``crowded``: all tokens take the same experts. ``graded``: each block's largest value, of latent and hidden, is so much
    larger than the others that these are subnormal E4M3 numbers, and its weights are zero: nothing else counts.
    ``padded``: the last quarter of the rows (at least one, but not all)
    is NaN.
    """
    draws = Draws("experts", case.id)
    tp, rows = case.sizes["tp"], case.sizes["batch"]
    latent = activation(draws, rows, K3.latent)
    live = rows
    blocks = latent.view(rows, -1, BLOCK)
    if case.inputs == "levels":
        latent.zero_()
        latent[torch.arange(rows), draws.integers((rows,), 0, K3.latent)] = LEVEL
    if case.inputs == "maxima":
        blocks.clamp_(-1.0, 1.0)
        largest = torch.tensor(MAXIMA)[draws.integers(tuple(blocks.shape[:2]), 0, len(MAXIMA))]
        blocks[..., 7] = torch.where(draws.integers(tuple(blocks.shape[:2]), 0, 2) == 0, largest, -largest).bfloat16()
    if case.inputs == "cancelling":
        blocks[:, 0] = draws.bell((rows, BLOCK), 2.0**8).bfloat16()
        blocks[:, -1] = -blocks[:, 0]
    if case.inputs == "outliers":
        blocks[:, ::5, 3] *= 2.0**10
    if case.inputs == "zeros":
        blocks[:, 1::3] = 0.0
        latent[0] = 0.0
    if case.inputs == "subnormal":
        blocks[:, 1::3] *= 2.0**-120
        blocks[:, 2::3] = 2.0**-130
    if case.inputs == "graded":
        latent *= 2.0**-5
        blocks[..., LARGEST] = 2.0**9 * torch.tensor(MAXIMA)[draws.integers(tuple(blocks.shape[:2]), 0, len(MAXIMA))].bfloat16()
    if case.inputs == "padded" and rows > 1:
        live = rows - max(1, rows // 4)
        latent[live:] = float("nan")
    chosen = draws.permutation(EXPERTS) if case.inputs == "crowded" else None
    ids = torch.stack([(draws.permutation(EXPERTS) if chosen is None else chosen)[: K3.top_k] for _ in range(rows)])
    w13, w2 = OWN_WEIGHTS.get(case.inputs, _weights)(tp)
    return Call(
        "experts",
        case.sizes,
        {
            "latent": latent,
            "ids": ids.int(),
            "w13": w13,
            "w2": w2,
            "beta": K3.situ_beta,
            "linear_beta": K3.situ_linear_beta,
            "live": live,
        },
        {"out": ((rows * K3.top_k, K3.latent), torch.bfloat16)},
    )


@lru_cache(maxsize=2)
def _weights(tp: int) -> tuple[Packed, Packed]:
    """W13 [24, 2 I, 3584] and W2 [24, 3584, I], packed. W13's last block of channels repeats the first."""
    width = K3.moe_intermediate // tp
    draws = Draws("experts", "weights", tp)
    w13 = _stacked([packed_weight(draws, 2 * width, K3.latent, -7) for _ in range(EXPERTS)])
    w13.codes[..., -BLOCK // 2 :] = w13.codes[..., : BLOCK // 2]
    w13.scales[..., -1] = w13.scales[..., 0]
    return w13, _stacked([packed_weight(draws, K3.latent, width, -6) for _ in range(EXPERTS)])


@lru_cache(maxsize=1)
def _saturated(tp: int) -> tuple[Packed, Packed]:
    """W13 whose gate rows are 6 / 8 throughout: a positive channel of size 384 saturates every gate."""
    w13, w2 = _weights(tp)
    width = w13.codes.shape[1] // 2
    changed = replace(w13, codes=w13.codes.clone(), scales=w13.scales.clone())
    changed.codes[:, :width] = 0x77
    changed.scales[:, :width] = SCALE_BIAS - 3
    return changed, w2


@lru_cache(maxsize=1)
def _graded(tp: int) -> tuple[Packed, Packed]:
    """Zeros for every block's channel ``LARGEST``; W13's rows for that hidden channel are 2**12 times as large."""
    changed = [replace(weight, codes=weight.codes.clone(), scales=weight.scales.clone()) for weight in _weights(tp)]
    for weight in changed:
        weight.codes[..., LARGEST // 2 :: BLOCK // 2] &= 0x0F  # an odd channel: the high nibble
    changed[0].scales[:, LARGEST::BLOCK] += 12
    return changed[0], changed[1]


OWN_WEIGHTS = {"levels": _saturated, "graded": _graded}


def _stacked(weights: list[Packed]) -> Packed:
    return Packed(torch.stack([w.codes for w in weights]), torch.stack([w.scales for w in weights]))
