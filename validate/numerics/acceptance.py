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
``repeatable``  a second call on equal inputs is bitwise equal
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from validate.model.call import Call, Expected, ExpectedChoice
from validate.numerics import measure

# A subject may err twice as much as the default path: two correct orders of one fp32 sum differ by less than that in the
# 2-norm (FlashAttention's own rule, tests/test_flash_attn.py: err(kernel) <= 2 err(reference implementation)).
NO_WORSE = 2.0
# The ensemble moves every declared value by its whole error bound, but in three patterns only. The largest of three draws
# of a bell-shaped displacement is 0.85 deviations on average; three times that is 2.5, passed by one element in a hundred,
# and the bounds themselves are two to four times the errors met (golden/h200 beside the error terms in reference/).
ENSEMBLE_REACH = 3.0
# One intermediate on the other side of its boundary moves what it feeds by up to half a bf16 ulp of itself; spread over
# the 128 elements of a head's sum that is a share of 2**-8 of their ulps, and moves as large a share of them across.
STRAY_SHARE = 2.0**-8


@dataclass(frozen=True)
class Measurement:
    """One check of one tensor. ``figure`` must not exceed ``bound``."""

    tensor: str
    check: str
    figure: float
    bound: float
    passed: bool
    detail: str = ""


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


def ranks_agree(name: str, value: Tensor) -> Measurement:
    """``value`` [ranks, ...] must be bitwise equal over ranks."""
    pattern = measure.bits(value)
    return _count(name, "ranks", pattern != pattern[:1], "differs from rank 0's")


def equal(name: str, value: Tensor, again: Tensor) -> Measurement:
    """``repeatable``: two calls on equal inputs, bitwise."""
    return _count(name, "repeatable", measure.bits(value) != measure.bits(again), "differs in a second call")


def exact(name: str, value: Tensor, expected: Tensor) -> Measurement:
    """``exact``: the bits of the float64 ``expected`` in the dtype of ``value``, where nothing is computed but a pattern stored."""
    return _count(name, "exact", measure.bits(value) != measure.bits(expected.to(value.dtype)), "differs from the pattern")


def no_worse(name: str, value: Tensor, common: Ensemble, roundings: int, default: Tensor) -> list[Measurement]:
    """Rules 2 and 3: the errors against the common reference beside those of the default path on the same inputs.

    ``roundings`` counts the subject's own rounding points. The floor is what a perfect implementation pays: rounding
    the reference to the output's dtype, times the root of one plus the roundings inside (independent ones of equal
    relative size add in quadrature), plus what the ensemble spans and what the reference grants.
    """
    dtype = value.dtype
    reference, spread = measure.as_rows(common.expected.value), measure.as_rows(common.spread)
    value, default = measure.as_rows(value), measure.as_rows(default)
    parts = [
        _compare(value[part], default[part], reference[part], spread[part], dtype)
        for part in measure.blocks(*reference.shape)
    ]
    norm, error, default_error, rounded, reach = (torch.cat([getattr(p, n) for p in parts]) for n in _BY_ROW)
    floor = rounded * (1 + roundings) ** 0.5 + ENSEMBLE_REACH * reach
    if common.expected.granted is not None:
        floor = floor + common.expected.granted
    bound = torch.maximum(NO_WORSE * default_error, floor)
    row = int(torch.nan_to_num(error / bound, nan=0.0, posinf=torch.inf).argmax())
    scale = norm.norm().clamp_min(1e-300)
    total_bound = torch.maximum(NO_WORSE * default_error.norm(), floor.norm())
    found = [
        Measurement(
            name,
            "no_worse",
            float(error.norm() / scale),
            float(total_bound / scale),
            bool(error.norm() <= total_bound),
            f"relative 2-norm; default path {float(default_error.norm() / scale):.3e}",
        ),
        Measurement(
            name,
            "no_worse_row",
            float(error[row] / norm[row].clamp_min(1e-300)),
            float(bound[row] / norm[row].clamp_min(1e-300)),
            bool((error <= bound).all()),
            f"row {row} of {len(error)}, the worst by its bound",
        ),
    ]
    return found + _elements(name, parts, reference.shape, roundings)


@dataclass(frozen=True)
class _Compared:
    """A block of rows: 2-norms by row [rows], and figures in ulps over its elements."""

    norm: Tensor
    error: Tensor
    default_error: Tensor
    rounded: Tensor  # of rounding the reference to the output's dtype
    reach: Tensor  # of the ensemble's spread
    largest: float
    largest_at: int  # flat, in the block
    default_largest: float
    beyond: int
    default_beyond: int
    reach_largest: float
    reach_count: int  # elements that the ensemble moves by more than a quarter of an ulp


_BY_ROW = ("norm", "error", "default_error", "rounded", "reach")


def _compare(value: Tensor, default: Tensor, reference: Tensor, spread: Tensor, dtype: torch.dtype) -> _Compared:
    rounding_error = (reference.to(dtype).double() - reference).norm(dim=-1)
    typical = measure.ulp(reference, dtype).norm(dim=-1) * 12**-0.5  # the deviation of a uniform error
    unit = measure.row_ulp(reference, dtype)
    difference, default_difference = (value - reference).abs(), (default - reference).abs()
    ulps, default_ulps, reach = difference / unit, default_difference / unit, ENSEMBLE_REACH * spread / unit
    return _Compared(
        norm=reference.norm(dim=-1),
        error=difference.norm(dim=-1),
        default_error=default_difference.norm(dim=-1),
        rounded=torch.maximum(rounding_error, typical),
        reach=spread.norm(dim=-1),
        largest=float(ulps.max()),
        largest_at=int(ulps.argmax()),
        default_largest=float(default_ulps.max()),
        beyond=int((ulps > 1).sum()),
        default_beyond=int((default_ulps > 1).sum()),
        reach_largest=float(reach.max()),
        reach_count=int((reach > 0.25).sum()),
    )


def _elements(name: str, parts: list[_Compared], shape: torch.Size, roundings: int) -> list[Measurement]:
    """Rule 3. Floors: half an ulp for each rounding on the way, and the share that normal errors of their variance give."""
    count = shape[0] * shape[1]
    worst = max(range(len(parts)), key=lambda n: parts[n].largest)
    before = sum(len(part.norm) for part in parts[:worst]) * shape[1]
    # Errors inside count twice: an intermediate's half ulp may be half an ulp of a binade that the output just left.
    floor = 0.5 + roundings + max(part.reach_largest for part in parts)
    bound = max(NO_WORSE * max(part.default_largest for part in parts), floor)
    # At most half an ulp each, so of a variance of 1/12: the two tails beyond one ulp.
    tails = 0.0 if roundings == 0 else math.erfc(1 / math.sqrt(2 * (1 + roundings) / 12))
    share = sum(part.beyond for part in parts) / count
    share_floor = NO_WORSE * tails + 4 / count + sum(part.reach_count for part in parts) / count
    share_bound = max(NO_WORSE * sum(part.default_beyond for part in parts) / count, share_floor)
    largest = parts[worst].largest
    place = _place(shape, before + parts[worst].largest_at)
    return [
        Measurement(name, "largest", largest, bound, largest <= bound, f"ulps, at {place}"),
        Measurement(name, "share", share, share_bound, share <= share_bound, "share of elements beyond one ulp"),
    ]


def rounding(name: str, value: Tensor, own: Ensemble) -> Measurement:
    """Rule 4: every element within half an ulp, and the reach of the ensemble, of the path's own reference.

    The figure is the largest error as a multiple of what is allowed at its element. An element's spread counts at least
    as much as its row's root mean square: which elements the three patterns move is chance.

    A path with roundings inside may have strays: an intermediate that falls to the other side moves the values after it
    by much more than the error bounds, and one of those may then change sides, too. Which ones is beyond three patterns.
    So ``STRAY_SHARE`` of a row, and two elements of a short one, may be off by an ulp for each rounding on the way.
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
            stray = (ratio > 1) & ((v - r).abs() <= own.expected.roundings * measure.row_ulp(r, dtype))
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
        detail = f"{count} of {wrong.numel()} elements {what}, first at {_place(wrong.shape, int(wrong.flatten().byte().argmax()))}"
    return Measurement(name, check, count, 0, count == 0, detail)


def _place(shape: torch.Size, flat: int) -> str:
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
