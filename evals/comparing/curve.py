"""MRCR by needles and length: the mean of each, and the area under the curve over lengths.

The area is Context Arena's (https://contextarena.ai): the mean of each length stands at its upper bound, on an axis of tokens,
and what is under the straight lines between them is divided by the axis' length. The site does not say so, its table does:
98.7, 94.3, 89.0, 88.9, 84.1, 81.1, 72.7 and 60.1 % at 8k to 1M are given as 88.5 % at 128k and 73.7 % at 1M, which no mean and
no axis of doublings gives. The longest lengths weigh most: of an area to 1M, 63 % are the last two of eight means.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean

from evals.tasks import lengths


@dataclass(frozen=True)
class Curve:
    """One number of needles. ``means`` are by the length's upper bound in tokens, ascending; ``items`` are how many each is of.

    ``gaps``: upper bounds between the first and the last of which there is no item. ``outside``: items of no length.
    """

    means: Mapping[int, float]
    items: Mapping[int, int]
    gaps: tuple[int, ...]
    outside: int

    def area(self, longest: int | None = None) -> float | None:
        """To the upper bound ``longest``, or to the last one. None of fewer than two lengths, over a gap, or without that one."""
        means = {bound: mean for bound, mean in self.means.items() if longest is None or bound <= longest}
        if len(means) < 2 or any(gap < max(means) for gap in self.gaps) or longest not in (None, max(means)):
            return None
        return sum(weight * means[bound] for bound, weight in weights(means).items())


def weights(bounds: Iterable[int]) -> dict[int, float]:
    """What each length's mean weighs in the area, by its upper bound; all together 1. Two bounds or more.

    A paired difference of areas is the sum of the lengths' mean differences by these.
    """
    ordered = sorted(bounds)
    range_ = ordered[-1] - ordered[0]
    before, after = [ordered[0], *ordered[:-1]], [*ordered[1:], ordered[-1]]
    return {bound: (high - low) / (2 * range_) for bound, low, high in zip(ordered, before, after, strict=True)}


def curves(scores: Iterable[tuple[str, str, float]]) -> dict[int, Curve]:
    """By needles, of (stratum, item, score) of every response: repeats are averaged first, so that each item counts once.

    Strata that do not begin with a number of needles, as ``lengths.py`` makes them, are refused with a ValueError.
    """
    by_item: dict[tuple[str, str], list[float]] = defaultdict(list)
    for stratum, item, score in scores:
        by_item[stratum, item].append(score)
    cells: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    outside: dict[int, int] = defaultdict(int)
    for (stratum, _), repeats in by_item.items():
        if found := lengths.parts(stratum):
            needles, _, high = found
            cells[needles][high].append(fmean(repeats))
        else:
            needles = lengths.needles(stratum)
            outside[needles] += 1
    return {needles: _curve(cells[needles], outside[needles]) for needles in sorted({*cells, *outside})}


def _curve(cells: Mapping[int, list[float]], outside: int) -> Curve:
    bounds = sorted(cells)
    gaps = []
    if bounds:
        bound = bounds[0]
        while bound < bounds[-1]:
            if bound not in cells:
                gaps.append(bound)
            bound *= 2
    return Curve(
        {bound: fmean(cells[bound]) for bound in bounds}, {bound: len(cells[bound]) for bound in bounds}, tuple(gaps), outside
    )
