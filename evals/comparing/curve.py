"""The area under the curve of MRCR's means over lengths.

It is Context Arena's (https://contextarena.ai): the mean of each length stands at its upper bound, on an axis of tokens, and what
is under the straight lines between them is divided by the axis' length. The site does not say so, its table does: 98.7, 94.3,
89.0, 88.9, 84.1, 81.1, 72.7 and 60.1 % at 8k to 1M are given as 88.5 % at 128k and 73.7 % at 1M, which no mean and no axis of
doublings gives. The longest lengths weigh most: of an area to 1M, 63 % are the last two of eight means.
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise


def area(means: Mapping[int, float]) -> float | None:
    """Of means by upper bound in tokens. None of fewer than two lengths, or where a length between them has no mean."""
    bounds = sorted(means)
    if len(bounds) < 2 or any(2 * low != high for low, high in pairwise(bounds)):
        return None
    return sum(weight * means[bound] for bound, weight in weights(bounds).items())


def weights(bounds: Iterable[int]) -> dict[int, float]:
    """What each length's mean weighs in the area, by its upper bound; all together 1. Two bounds or more.

    A paired difference of areas is the sum of the lengths' mean differences by these.
    """
    ordered = sorted(bounds)
    range_ = ordered[-1] - ordered[0]
    before, after = [ordered[0], *ordered[:-1]], [*ordered[1:], ordered[-1]]
    return {bound: (high - low) / (2 * range_) for bound, low, high in zip(ordered, before, after, strict=True)}
