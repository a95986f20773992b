"""Cases of attention residuals: every number of saved blocks, each form, tensor and mailbox input."""

import torch

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.model.draws import Draws
from validate.model.synthetic import activation, norm_weight
from validate.numerics.case import Case
from validate.paths.emulated.mailbox import armed
from validate.profiles import Profile

BLOCKS = K3.attn_res_blocks
SPARE = 2  # rows after the live ones, which nobody may touch
INPUTS = ("trained", "dominant", "opposed", "subnormal")


def cases(profile: Profile) -> list[Case]:
    """Layers by their number of saved blocks, at every decode size; TP selects nothing here but the slots of the mailbox."""
    found = []
    for seed in range(profile.seeds):
        for n, batch in enumerate(profile.batches):
            for blocks in {0, BLOCKS, (n * 3) % (BLOCKS + 1), (n * 5 + 2) % (BLOCKS + 1)}:
                write = blocks if blocks < BLOCKS and (n + blocks) % 3 == 0 else -1
                sizes = _sizes(batch, blocks, write=write, aux=n % 2)
                found.append(Case("attn_res", sizes, INPUTS[(n + blocks) % 4], seed))
        for slots in (1, 2, 8, 16):
            for batch, blocks in ((1, 3), (5, 8), (16, 1)):
                sizes = _sizes(batch, blocks, slots=slots, aux=batch % 2, final=int(blocks == BLOCKS))
                found.append(Case("attn_res", sizes, INPUTS[(slots + batch) % 4], seed))
        for batch in (1, 4, 64):
            found.append(Case("attn_res", _sizes(batch, BLOCKS, final=1), "trained", seed))
        # The first layer: nothing to add to, and its input becomes block 0.
        found.append(Case("attn_res", _sizes(4, 0, add=0, write=0), "trained", seed))
        # After the attention of a block-write layer the prefix starts anew.
        found.append(Case("attn_res", _sizes(4, 3, add=0), "trained", seed))
    return found


def _sizes(
    batch: int, blocks: int, *, add: int = 1, write: int = -1, final: int = 0, slots: int = 0, aux: int = 0
) -> dict[str, int]:
    return {"batch": batch, "blocks": blocks, "add": add, "write": write, "final": final, "slots": slots, "aux": aux}


def build(case: Case) -> Call:
    """Inputs as ``reference.attn_res`` names them. Blocks that are not saved yet are NaN, as a new buffer may be.

    ``dominant``: one source takes all of the softmax, by logits of a hundred and more. ``opposed``: the blocks are nearly the prefix's
    opposite, so that the mixture is small beside its parts. ``subnormal``: rows of subnormals and of zeros.
    """
    draws = Draws("attn_res", case.id)
    batch, saved, slots = (case.sizes[name] for name in ("batch", "blocks", "slots"))
    rows = batch + SPARE
    prefix = activation(draws, rows, K3.hidden)
    blocks = activation(draws, rows * BLOCKS, K3.hidden).view(rows, BLOCKS, K3.hidden)
    delta = activation(draws, max(1, slots) * batch, K3.hidden).view(-1, batch, K3.hidden)
    query = draws.bell((K3.hidden,), K3.hidden**-0.5)
    if case.inputs == "dominant":
        query = query * 64
    if case.inputs == "opposed":
        delta = delta * 2.0**-6
        blocks[:batch] = -(prefix[:batch].float()[:, None] * (1 + draws.bell((batch, BLOCKS, 1), 0.02).float())).bfloat16()
    if case.inputs == "subnormal":
        prefix[::2] *= 2.0**-130
        blocks[::2] *= 2.0**-130
        delta[:, ::2] *= 2.0**-130
        blocks[-1 - SPARE] = 0.0
    blocks[:, saved:] = torch.nan
    mailbox = armed((max(1, slots), rows, K3.hidden))
    if slots:
        mailbox[:, :batch] = torch.where(delta == 0, torch.zeros_like(delta), delta)
    row = ((batch, K3.hidden), torch.bfloat16)
    return Call(
        "attn_res",
        case.sizes,
        {
            "delta": None if slots else delta[0],
            "norm": norm_weight(draws, K3.hidden),
            "query": query.bfloat16(),
            "out_norm": norm_weight(draws, K3.hidden),
            "eps": K3.rms_eps,
            "out_eps": K3.rms_eps,
        },
        {"out": row, "aux": row} if case.sizes["aux"] else {"out": row},
        {"prefix": prefix, "blocks": blocks, "mailbox": mailbox},
    )
