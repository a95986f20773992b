"""RecoverSSM: a verify step of Kimi Delta Attention that keeps one state a request, and the commit of what was accepted.

The verify step is that of ``reference.kda``, but leaves the state alone, and the commit takes the state after the accepted
tokens. Whatever a kernel keeps between the two, the equations are those of KDA with a state for each token, of which the
last accepted one is kept:

    S' = S_n, with n accepted tokens;  taps' = the three inputs up to token n

vLLM 0.33.0, models/kimi_k3/nvidia/ops/recoverssm.py (Triton) and recoverssm/ (CuTe, for a bf16 state on SM100). Only the default
path has it (``stages.DEFAULT_ONLY``), so its rounding points, those of ``reference.kda``, are common to all that run it.
"""

from itertools import pairwise

import torch

from validate.model.call import Call, Expected
from validate.reference import kda
from validate.reference.points import Points

HISTORY = 3  # inputs before a token that its convolution of width 4 sees


def reference(call: Call, points: Points) -> dict[str, Expected]:
    """Outputs ``out`` [rows, heads * D], and the touched slots of ``conv`` and ``state``.

    Buffers: ``conv`` [slots, 3 * H * D, q + 2] bf16 and ``state`` [slots, H, D, D], fp32 or bf16. Inputs as
    in ``reference.kda``, but: request b has the rows ``starts[b]`` to ``starts[b + 1]``, at most q, of [rows, ...]; its state and
    taps are in ``slots[b]``, and a slot of 0 or less means zeros for its rows and nothing written. ``accepted`` [requests of the
    step]: tokens to commit of each; b is request ``indices[b]`` of the step, or b without ``indices``.
    The verify step finds the taps in columns 0 to 2 and leaves the columns 1 and 2, then the inputs; the commit brings the last
    three of the accepted tokens' inputs to columns 0 to 2.

    With ``table`` [requests of the step, blocks], vLLM's prefix caching, the states go to the slots of blocks of ``block``
    tokens: S_n to that of the last accepted token, ``computed`` [requests of the step] tokens being there before the step; and
    where the window passes the end of a block, the state after that block's last token to that block's slot, taps likewise.
    """
    i, q = call.inputs, call.shape["q"]
    points = points.on("default")
    conv, state = call.buffers["conv"], call.buffers["state"]
    starts, slots = i["starts"].tolist(), i["slots"].tolist()
    lengths = [end - start for start, end in pairwise(starts)]
    verified = kda.reference(_with_a_slot_a_token(call), points, from_checkpoint=state.dtype is torch.bfloat16)
    after = iter(verified["state"].value.split(q))  # those of the live requests, in order
    states: dict[int, torch.Tensor] = {}
    taps: dict[int, torch.Tensor] = {}
    for b, (slot, start, length) in enumerate(zip(slots, starts, lengths, strict=False)):
        if slot <= 0:
            continue
        by_token = next(after)
        request = int(i["indices"][b]) if i["indices"] is not None else b
        taken = int(i["accepted"][request])
        # Column c of the history has the input c - 3 of the window.
        history = torch.cat([conv[slot, :, :HISTORY], i["x"][start : start + length].T], 1)
        rolled = conv[slot].clone()
        rolled[:, : length + 2] = history[:, 1:]
        taps[slot] = rolled
        kept = {slot: taken}
        if i["table"] is not None:
            row, before, block = i["table"][request].tolist(), int(i["computed"][request]), i["block"]
            end = (before // block + 1) * block  # of the block that the first new token is in
            kept = {row[end // block - 1]: end - before} if before + taken >= end else {}
            kept[row[(before + taken - 1) // block]] = taken
        for target, count in kept.items():
            states[target] = by_token[count - 1]
            taps[target] = torch.cat([history[:, count : count + HISTORY], taps.get(target, conv[target])[:, HISTORY:]], 1)
    touched, homes = torch.tensor(sorted(states), dtype=torch.long), torch.tensor(sorted(taps), dtype=torch.long)
    rounded = points.rounded
    return {
        "out": Expected(_rows(verified["out"].value.unflatten(0, (-1, q)), lengths), roundings=rounded),
        "state": Expected(torch.stack([states[s] for s in touched.tolist()]), (touched,), roundings=rounded),
        "conv": Expected(torch.stack([taps[s] for s in homes.tolist()]).double(), (homes,), exact=True),
    }


def _with_a_slot_a_token(call: Call) -> Call:
    """The call as ``reference.kda`` takes it: q rows a request, the last one repeated, and slots of its own for each token."""
    i, q = call.inputs, call.shape["q"]
    count = len(i["slots"])
    rows = torch.cat([torch.arange(q).clamp_max(int(n) - 1) + s for s, n in zip(i["starts"], i["starts"].diff(), strict=False)])
    slots = torch.where(i["slots"][:, None] > 0, 1 + torch.arange(count * q).view(count, q), 0)
    buffers = {}
    for name, buffer in call.buffers.items():
        own = buffer.new_zeros((1 + count * q, *buffer.shape[1:]))
        own[slots[:, 0]] = buffer[i["slots"].clamp_min(0)]
        buffers[name] = own
    steps = {name: i[name][rows] for name in ("x", "gate", "f_a", "beta")}
    inputs = {**i, **steps, "slots": slots, "accepted": torch.ones(count, dtype=torch.int32)}
    return Call("kda", call.shape, inputs, call.empty, buffers)


def _rows(padded: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    """[rows, n]: of [requests, q, n] each request's own."""
    return torch.cat([own[:length] for own, length in zip(padded, lengths, strict=True)])
