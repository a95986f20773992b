"""Cases of attention residuals: every number of saved blocks, each form, tensor and mailbox input."""

import torch
from torch import Tensor

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.model.draws import Draws
from validate.model.synthetic import activation, norm_weight
from validate.numerics.case import Case
from validate.paths.emulated.mailbox import fold
from validate.profiles import Profile

BLOCKS = K3.attn_res_blocks
SPARE = 2  # rows after the live ones, which nobody may touch
INPUTS = ("trained", "dominant", "opposed", "subnormal", "faint", "equal")
QUERY_SCALE = {"dominant": 64.0, "opposed": 2.0**-10}


def cases(profile: Profile) -> list[Case]:
    """Layers by their number of saved blocks, at every decode size. Every rank computes all rows: no TP size."""
    found = []
    for seed in range(profile.seeds):
        forms = [*_layers(), *_other_forms()]
        for n, form in enumerate(forms):
            found.append(_case(1 + n % 4, form, INPUTS[n % len(INPUTS)], seed))
        for inputs in INPUTS:
            for blocks in (1, 3, BLOCKS):
                found.append(_case(2, {"blocks": blocks, "slots": 1}, inputs, seed))
            found.append(_case(3, {"blocks": 4, "fused": 1}, inputs, seed))
            found.append(_case(2, {"blocks": BLOCKS, "slots": 1, "final": 1}, inputs, seed))
        for n, batch in enumerate(profile.batches):
            form = {"blocks": (3 + 2 * n) % BLOCKS + 1, "slots": 1}
            if batch <= 8:
                form["write"] = form["blocks"] if form["blocks"] < BLOCKS else -1
            found.append(_case(batch, form, "trained", seed))
            if batch <= 16:
                found.append(_case(batch, {"blocks": 1 + n % BLOCKS, "fused": 1}, INPUTS[n % len(INPUTS)], seed))
        for batch in (1, 4, profile.batches[-1]):
            found.append(_case(batch, {"blocks": BLOCKS, "slots": 1, "final": 1}, "trained", seed))
        for slots in (1, 2, 3, 8):
            found.append(_case(3, {"blocks": slots % 5, "slots": slots}, "rotating" if slots > 1 else "sentinel", seed))
            found.append(_case(4, {"blocks": 2, "slots": slots, "write": 2, "aux": 1}, "sentinel", seed))
    return list(dict.fromkeys(found))


def _layers() -> list[dict[str, int]]:
    """The forms that K3's layers use: before attention, before the MLP (fused), and at the end of the model."""
    found = [{"blocks": 0, "add": 0, "write": 0}]  # layer 0: nothing to add to, and its input becomes block 0
    found.append({"blocks": 1, "aux": 1})  # layer 1: the dense MLP hands on a tensor
    for blocks in range(1, BLOCKS + 1):
        found.append({"blocks": blocks, "slots": 1})
        found.append({"blocks": blocks, "fused": 1})
        found.append({"blocks": blocks, "fused": 1, "add": 0})  # after the attention of a block-write layer
    found += [{"blocks": blocks, "slots": 1, "write": blocks} for blocks in (1, 4, BLOCKS - 1)]
    found += [{"blocks": blocks, "slots": 1, "aux": 1} for blocks in (2, 5, BLOCKS)]
    found += [{"blocks": BLOCKS, "slots": slots, "aux": aux, "final": 1} for slots in (0, 1) for aux in (0, 1)]
    return found


def _other_forms() -> list[dict[str, int]]:
    """Forms that the kernel offers beyond K3's own use."""
    found = [{"blocks": 0}, {"blocks": 0, "slots": 1}, {"blocks": 0, "slots": 1, "write": 0, "aux": 1}]
    found += [{"blocks": blocks, "add": 0} for blocks in (1, 3, BLOCKS)]
    return found


def _case(batch: int, form: dict[str, int], inputs: str, seed: int) -> Case:
    usual = {"add": 1, "write": -1, "final": 0, "slots": 0, "aux": 0, "fused": 0}
    return Case("attn_res", {"batch": batch, "blocks": form["blocks"], **usual, **form}, inputs, seed)


def build(case: Case) -> Call:
    """Inputs as ``reference.attn_res`` names them.

    Blocks that are not saved yet are NaN, as a new buffer may be, and so is a prefix that is not added to.
    ``dominant``: one source takes all of the softmax, by logits of a hundred and more. ``opposed``: the prefix is
    minus the sum of the blocks but for an eighth, at nearly equal logits, so that the mixture is small beside its
    parts. ``subnormal``: rows of subnormals and of zeros. ``faint``: rows so small that the epsilons are felt.
    ``equal``: all sources are the same. ``sentinel``: the mailbox holds what a careless reader takes for its sentinel.
    ``rotating``: parts of 2**24, about 1, -2**24 and about 1, so that every order of summation gives another result.
    """
    draws = Draws("attn_res", case.id)
    batch, saved, slots = (case.sizes[name] for name in ("batch", "blocks", "slots"))
    rows = batch + SPARE
    prefix = activation(draws, rows, K3.hidden)
    blocks = activation(draws, rows * BLOCKS, K3.hidden).view(rows, BLOCKS, K3.hidden)
    delta = activation(draws, max(1, slots) * rows, K3.hidden).view(-1, rows, K3.hidden)
    query = draws.bell((K3.hidden,), K3.hidden**-0.5) * QUERY_SCALE.get(case.inputs, 1.0)
    if case.inputs == "opposed" and saved:
        total = -blocks[:, :saved].double().sum(1)
        level = total.square().mean(-1, keepdim=True).sqrt()
        prefix = (total + level * draws.bell((rows, K3.hidden), 2.0**-3)).bfloat16()
        delta = delta * 2.0**-6
        if not case.sizes["add"]:
            delta = prefix.expand_as(delta).clone()
    if case.inputs == "subnormal":
        prefix[::2] *= 2.0**-130
        blocks[::2] *= 2.0**-130
        delta[:, ::2] *= 2.0**-130
        blocks[batch - 1] = 0.0
    if case.inputs == "faint":
        prefix, blocks, delta = (t * 2.0**-9 for t in (prefix, blocks, delta))
    if case.inputs == "equal":
        row = prefix.float() + delta[0].float() if case.sizes["add"] else delta[0].float()
        blocks[:] = row.bfloat16()[:, None]
    if case.inputs == "sentinel":
        _hide_sentinels(delta)
    if case.inputs == "rotating":
        steps = torch.arange(slots)[:, None] + torch.arange(rows)
        delta[:, :, ::5] = torch.tensor([2.0**24, 1.0, -(2.0**24), 1.0]).bfloat16()[steps % 4][..., None]
    if case.sizes["fused"]:
        delta = fold(delta)  # a sum over ranks has no -0
    blocks[:, saved:] = torch.nan
    if not case.sizes["add"]:
        prefix[:batch] = torch.nan
    out = ((batch, K3.hidden), torch.bfloat16)
    return Call(
        "attn_res",
        case.sizes,
        {
            "delta": None if slots else delta[0, :batch],
            "norm": norm_weight(draws, K3.hidden),
            "query": query.bfloat16(),
            "out_norm": norm_weight(draws, K3.hidden),
            "eps": K3.rms_eps,
            "out_eps": K3.rms_eps,
        },
        {"out": out, "aux": out} if case.sizes["aux"] else {"out": out},
        # As its writers leave it, without -0; the rows past the live ones hold a larger batch's data.
        {"prefix": prefix, "blocks": blocks, "mailbox": fold(delta)},
    )


def _hide_sentinels(parts: Tensor) -> None:
    """Writes into ``parts`` [slots, rows, hidden] what is not the sentinel (+0, -0), but close.

    Whole rows of zeros, and in the others zeros, zeros beside negative subnormals (32-bit words 0x80010000) and beside
    -1.
    """
    parts[:, ::2] = 0.0
    parts[:, :, :192] = 0.0
    parts[:, :, 65:129:2] = -(2.0**-133)
    parts[:, :, 129:192:8] = -1.0
