"""The rules of judgement: from what a subject wrote and what the references say to one ``Measurement`` a check.

The checks, in the order of the design's rules:

``complete``    every output element is written, and nothing else: caches, slots and rows outside are bit-identical
``ranks``       what all ranks must agree on, they agree on bitwise
``no_worse``    relative 2-norm error at most twice the default path's, or the floor; ``no_worse_row`` the same by row
``largest``     largest error in ulps at most twice the default path's, or the floor
``share``       share of elements beyond one ulp, likewise
``rounding``    every element lies within half an ulp, and what the ensemble spans, of the path's own reference
``choice``      discrete outputs are among the answers that the margins allow
``exact``       a stored pattern, such as a mailbox's sentinel, is there bit for bit
``repeatable``  a second call on equal inputs is bitwise equal; on a GPU it replays a CUDA graph
``finished``    a kernel that waits for other ranks ended by its deadline
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from validate.model.call import Call, Expected, ExpectedChoice
from validate.numerics import measure

# The ensemble moves every declared value by its whole error bound, but in three patterns only. The largest of three draws
# of a bell-shaped displacement is 0.85 deviations on average; three times that is 2.5, passed by one element in a hundred,
# and the bounds themselves are two to four times the errors met (golden/h200 beside the error terms in reference/).
ENSEMBLE_REACH = 3.0
# One intermediate on the other side of its boundary moves what it feeds by up to half a bf16 ulp of itself; spread over
# the 128 elements of a head's sum that is a share of 2**-8 of their ulps, and moves as large a share of them across.
STRAY_SHARE = 2.0**-8


@dataclass(frozen=True)
class Measurement:
    """One check of one tensor. ``figure`` must not exceed ``bound``.

    ``error``, with ``rounding``: the relative 2-norm of the difference to the common reference.
    """

    tensor: str
    check: str
    figure: float
    bound: float
    passed: bool
    detail: str = ""
    error: float | None = None


@dataclass(frozen=True)
class Ensemble:
    """One expected tensor of a path: the nominal reference, and per element how far the members lie from it."""

    expected: Expected
    spread: Tensor


def ensemble(members: list[Expected]) -> Ensemble:
    """From the nominal member (the first) and the perturbed ones."""
    nominal = members[0]
    spread = torch.zeros_like(nominal.value)
    for member in members[1:]:
        torch.maximum(spread, (member.value - nominal.value).abs_(), out=spread)
    return Ensemble(nominal, spread)


def complete(before: Call, after: Call, expected: Mapping[str, Expected | ExpectedChoice]) -> list[Measurement]:
    """Poison left in outputs, and buffers changed outside the part that the reference names."""
    found = []
    for name, tensor in after.outputs.items():
        entry = expected.get(name)
        if isinstance(entry, Expected) and entry.where is not None:  # the rest (padded rows) is free
            tensor = tensor[(slice(None), *entry.where) if entry.replicated else entry.where]
        left = tensor.isnan() if tensor.is_floating_point() else tensor == torch.iinfo(tensor.dtype).min
        found.append(_count(name, "complete", left, "never written or NaN"))
    for name, tensor in after.buffers.items():
        original = before.buffers[name].clone()
        entry = expected.get(name)
        if isinstance(entry, Expected):
            where = entry.where if entry.where is not None else (slice(None),)
            original[where] = tensor[where]
        changed = measure.bits(original) != measure.bits(tensor)
        found.append(_count(name, "complete", changed, "changed outside its part"))
    return found


def inputs_kept(before: Mapping[str, int], after: Mapping[str, int]) -> list[Measurement]:
    """Inputs that a subject wrote, by torch's counts of in-place writes; nothing for those that it left alone."""
    return [
        Measurement(name, "complete", after[name] - before[name], 0, False, "an input was written")
        for name in before
        if after[name] != before[name]
    ]


def ranks_agree(name: str, value: Tensor) -> Measurement:
    """``value`` [ranks, ...] must be bitwise equal over ranks."""
    pattern = measure.bits(value)
    return _count(name, "ranks", pattern != pattern[:1], "differs from rank 0's")


def equal(name: str, value: Tensor, again: Tensor) -> Measurement:
    """``repeatable``: two calls on equal inputs, bitwise."""
    return _count(name, "repeatable", measure.bits(value) != measure.bits(again), "differs in a second call")


def exact(name: str, value: Tensor, expected: Tensor) -> Measurement:
    """``exact``: the bits of the float64 ``expected`` in the dtype of ``value``, where a pattern is stored."""
    return _count(name, "exact", measure.bits(value) != measure.bits(expected.to(value.dtype)), "differs from the pattern")


def rounding(name: str, value: Tensor, own: Ensemble) -> Measurement:
    """Rule 4: every element within half an ulp, and the reach of the ensemble, of the path's own reference.

    The figure is the largest error as a multiple of what is allowed at its element. An element's spread counts at least
    as much as its row's root mean square: which elements the three patterns move is chance.

    A path with roundings inside may have strays: an intermediate that falls to the other side moves the values after it
    by much more than the error bounds, and one of those may then change sides, too. Which ones is beyond three patterns.
    So ``STRAY_SHARE`` of a row, and two elements of a short one, may be off by an ulp for each rounding on the way, or by twice
    what is allowed where the three patterns cancelled at one element.
    """
    dtype = value.dtype
    reference, spread = measure.as_rows(own.expected.value), measure.as_rows(own.spread)
    value = measure.as_rows(value)
    largest, detail = -1.0, ""
    for part in measure.blocks(*reference.shape):
        v, r, s = value[part], reference[part], spread[part]
        half = torch.maximum(measure.ulp(r, dtype), measure.ulp(v, dtype)) / 2
        level = s.square().mean(-1, keepdim=True).sqrt()
        allowed = half + ENSEMBLE_REACH * torch.maximum(s, level)
        ratio = torch.nan_to_num((v - r).abs() / allowed, nan=torch.inf)
        if own.expected.roundings:
            near = torch.maximum(own.expected.roundings * measure.row_ulp(r, dtype), 2 * allowed)
            stray = (ratio > 1) & ((v - r).abs() <= near)
            few = stray.sum(-1, keepdim=True) <= max(2, STRAY_SHARE * r.shape[1])
            ratio = torch.where(stray & few, 1.0, ratio)
        if float(ratio.max()) > largest:
            largest = float(ratio.max())
            detail = _neighbourhood(v, r, allowed, int(ratio.argmax()), part.start)
    return Measurement(name, "rounding", largest, 1.0, largest <= 1.0, detail)


def choice(name: str, ids: Tensor, expected: ExpectedChoice) -> Measurement:
    """Rule 5: every chosen id scores, within the errors, no less than every id left out; ids of a row are distinct."""
    rows, total = expected.scores.shape
    chosen = torch.zeros(rows, total, dtype=torch.bool)
    legal = (ids >= 0) & (ids < total)
    chosen.scatter_(1, ids.long().clamp(0, total - 1), True)
    distinct = chosen.sum(1) == expected.count
    order = torch.arange(total, dtype=torch.float64)
    low = torch.where(chosen, expected.scores + expected.error, torch.inf)
    high = torch.where(chosen, -torch.inf, expected.scores - expected.error)
    lowest, highest = low.min(1).values, high.max(1).values
    # Among exactly equal scores with no error the lower id wins.
    last = torch.where(low == lowest[:, None], order, -torch.inf).max(1).values
    first = torch.where(high == highest[:, None], order, torch.inf).min(1).values
    exact = (lowest == highest) & (expected.error.max(1).values == 0)
    good = legal.all(1) & distinct & (lowest >= highest) & ~(exact & (last > first))
    if expected.twin is not None:
        later = expected.twin >= 0
        good &= ~(chosen[:, later] & ~chosen[:, expected.twin[later]]).any(1)
    wrong = int((~good).sum())
    detail = ""
    if wrong:
        row = int((~good).nonzero()[0])
        right = expected.scores[row].topk(expected.count).indices.sort().values.tolist()
        detail = f"row {row}: chose {sorted(ids[row].tolist())}, the reference {right}"
    return Measurement(name, "choice", wrong, 0, wrong == 0, detail)


def _count(name: str, check: str, wrong: Tensor, what: str) -> Measurement:
    count = int(wrong.sum())
    detail = ""
    if count:
        first = place(wrong.shape, int(wrong.flatten().byte().argmax()))
        detail = f"{count} of {wrong.numel()} elements {what}, first at {first}"
    return Measurement(name, check, count, 0, count == 0, detail)


def place(shape: torch.Size, flat: int) -> str:
    """The index of a flat position, for people."""
    index = []
    for size in reversed(shape):
        index.append(flat % size)
        flat //= size
    return "[" + ", ".join(map(str, reversed(index))) + "]"


def _neighbourhood(value: Tensor, reference: Tensor, allowed: Tensor, flat: int, first_row: int) -> str:
    row, column = divmod(flat, reference.shape[1])
    near = range(max(0, column - 1), min(reference.shape[1], column + 2))
    shown = ", ".join(f"[{c}] {value[row, c]:.6g} for {reference[row, c]:.6g}" for c in near)
    return f"worst at row {first_row + row}, column {column}: {shown}; allowed {allowed[row, column]:.2e}"
