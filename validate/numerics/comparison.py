"""Rules 2 and 3: a subject's errors beside those of the default path on the same inputs."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from validate.numerics import measure
from validate.numerics.acceptance import ENSEMBLE_REACH, Ensemble, Measurement, place

# A subject may err twice as much as the default path: two correct orders of one fp32 sum differ by less than that in the
# 2-norm (FlashAttention's own rule, tests/test_flash_attn.py: err(kernel) <= 2 err(reference implementation)).
NO_WORSE = 2.0


def no_worse(
    name: str, value: Tensor, common: Ensemble, roundings: int, default: Tensor, of: str = "default path"
) -> list[Measurement]:
    """Rules 2 and 3: the errors against the common reference beside those of the default path on the same inputs.

    ``of`` names the subject that ``default`` comes from. ``roundings`` counts the subject's own rounding points. The
    floor is what a perfect implementation pays: rounding the reference to the output's dtype, times the root of one plus
    the roundings inside (independent ones of equal relative size add in quadrature), plus what the ensemble spans and
    what the reference grants.
    """
    dtype = value.dtype
    reference, spread = measure.as_rows(common.expected.value), measure.as_rows(common.spread)
    value, default = measure.as_rows(value), measure.as_rows(default)
    margin = ENSEMBLE_REACH * spread
    if common.expected.granted is not None:
        margin += measure.as_rows(common.expected.granted)
    parts = [
        _compare(value[part], default[part], reference[part], margin[part], dtype) for part in measure.blocks(*reference.shape)
    ]
    norm, error, default_error, rounded, reach = (torch.cat([getattr(p, n) for p in parts]) for n in _BY_ROW)
    floor = rounded * (1 + roundings) ** 0.5 + reach
    bound = torch.maximum(NO_WORSE * default_error, floor)
    row = int(torch.nan_to_num(error / bound, nan=0.0, posinf=torch.inf).argmax())
    scale = _relative_to(norm.norm())
    total_bound = torch.maximum(NO_WORSE * default_error.norm(), floor.norm())
    found = [
        Measurement(
            name,
            "no_worse",
            float(error.norm() / scale),
            float(total_bound / scale),
            bool(error.norm() <= total_bound),
            f"relative 2-norm; {of} {float(default_error.norm() / scale):.3e}",
        ),
        Measurement(
            name,
            "no_worse_row",
            float(error[row] / _relative_to(norm[row])),
            float(bound[row] / _relative_to(norm[row])),
            bool((error <= bound).all()),
            f"row {row} of {len(error)}, the worst by its bound",
        ),
    ]
    return found + _elements(name, parts, reference.shape, roundings)


def _relative_to(norm: Tensor) -> Tensor:
    """What errors are divided by: the reference's norm, or 1 where the reference is zero."""
    return norm if norm > 0 else torch.ones_like(norm)


@dataclass(frozen=True)
class _Compared:
    """A block of rows: 2-norms by row [rows], and figures in ulps over its elements."""

    norm: Tensor
    error: Tensor
    default_error: Tensor
    rounded: Tensor  # of rounding the reference to the output's dtype
    reach: Tensor  # of what the ensemble spans and the reference grants
    largest: float
    largest_at: int  # flat, in the block
    default_largest: float
    beyond: int
    default_beyond: int
    reach_largest: float
    reach_count: int  # elements whose margin is more than a quarter of an ulp


_BY_ROW = ("norm", "error", "default_error", "rounded", "reach")


def _compare(value: Tensor, default: Tensor, reference: Tensor, margin: Tensor, dtype: torch.dtype) -> _Compared:
    rounding_error = (reference.to(dtype).double() - reference).norm(dim=-1)
    typical = measure.ulp(reference, dtype).norm(dim=-1) * 12**-0.5  # the deviation of a uniform error
    unit = measure.row_ulp(reference, dtype)
    difference, default_difference = (value - reference).abs(), (default - reference).abs()
    ulps, default_ulps, reach = difference / unit, default_difference / unit, margin / unit
    return _Compared(
        norm=reference.norm(dim=-1),
        error=difference.norm(dim=-1),
        default_error=default_difference.norm(dim=-1),
        rounded=torch.maximum(rounding_error, typical),
        reach=margin.norm(dim=-1),
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
    at = place(shape, before + parts[worst].largest_at)
    return [
        Measurement(name, "largest", largest, bound, largest <= bound, f"ulps, at {at}"),
        Measurement(name, "share", share, share_bound, share <= share_bound, "share of elements beyond one ulp"),
    ]
