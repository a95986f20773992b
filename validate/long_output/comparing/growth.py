"""Whether the specialized path's differences grow with position: forced decoding, against the default path's own noise.

At each position both differ from the default arm: the specialized path, and what noise is measured by (the float32 arm, or the
A/A one: ``equivalence/compare/allowance.py``). What is followed is the mean logarithm of the absolute difference, less that of
the noise. It says how far a *typical* token is off; single large ones are the matter of ``equivalence/compare/forced.py``. A
difference counts as a tenth of what rounding to the dtype makes of a logit at least, so that one of nothing has a logarithm.
The A/A arm may repeat the default one to the bit; so its noise counts, over a stretch, as at least what rounding makes: of
normal noise of rms s the mean logarithm is log s - (log 2 + Euler's constant) / 2. The float32 arm measures the default path's
own error, where tokens are all but certain a small one, and needs no such bound.

- **rise**: by how much it rises from the first to the last of eight equal parts of a request (Theil and Sen's slope), the mean
  over requests, with bounds by Student's t: a bootstrap's are too narrow where requests are few (of 5, a FAIL at the limit in
  7 % of samples where 0.5 % are declared). A path may be twice as far off as the default one (rule 2 of the design), so it may
  become so in the course of a request, and no more: PASS where the upper one-sided 95 % bound is below log 2, FAIL where the
  lower 99.5 % one is above.
- **excess**: the first band of ``BAND`` positions whose mean over requests is above the log of the multiple that is allowed
  anywhere (the lower bound of Student's t, at 1 % for all bands together: Bonferroni). It is a FAIL, and says where the fault
  begins.
"""

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from validate.equivalence.compare.allowance import Yardstick
from validate.equivalence.compare.finding import Check, Finding, check
from validate.equivalence.compare.table import Table
from validate.records.model import Record
from validate.stats.jackknife import Estimate
from validate.stats.slope import theil_sen
from validate.verdict import Verdict

PARTS, LONG_ENOUGH = 8, 128  # equal parts of a request whose slope is taken; tokens for that
BAND = 32  # positions
FEWEST = 5  # requests
ALPHA = 0.01
GRANTED = math.log(2.0)
TYPICAL = (math.log(2.0) + np.euler_gamma) / 2

Array = NDArray[np.float64]


class Band(Record):
    """Positions from ``start`` on. ``ratio``: geometric mean of specialized to noise over requests, with its lower bound."""

    start: int
    requests: int
    ratio: float
    low: float


class Growth(Record):
    """``rise``: the factor by which the ratio grows over a request, with one-sided bounds (95 % high, 99.5 % low).

    ``allowed``: of a band's ratio. ``excess``: the first position of the first band beyond it, with the request that is off most.
    """

    requests: int
    noise: str
    rise: float
    low: float
    high: float
    allowed: float
    bands: tuple[Band, ...]
    excess: int | None
    scene: str | None
    request: str | None
    verdict: Verdict


def measure(table: Table, yardstick: Yardstick) -> Growth | None:
    """None where fewer than ``FEWEST`` requests are long enough."""
    typical = math.log(yardstick.floor / yardstick.multiple) - TYPICAL
    sides = [np.abs(side[:, 0]) / table.move for side in (table.specialized, table.noise)]
    apart = np.stack([np.log(np.maximum(side, math.exp(typical) / 10)) for side in sides], axis=1)
    least = typical if yardstick.noise == "A/A" else -math.inf
    requests = _requests(table, apart)
    rises = np.array([_rise(own, least) for own in requests if len(own) >= LONG_ENOUGH])
    if len(rises) < FEWEST:
        return None
    low, high = bounds(rises)
    bands = _bands(requests, least)
    allowed = math.log(yardstick.multiple)
    excess = next((band.start for band in bands if band.low > allowed), None)
    scene = request = None
    if excess is not None:
        (scene, request), _ = table.largest((table.position >= excess) & (table.position < excess + BAND))
    verdict = Verdict.INCONCLUSIVE
    if excess is not None or low > GRANTED:
        verdict = Verdict.FAIL
    elif high < GRANTED:
        verdict = Verdict.PASS
    return Growth(
        requests=len(rises),
        noise=yardstick.noise,
        rise=math.exp(float(rises.mean())),
        low=math.exp(low),
        high=math.exp(high),
        allowed=yardstick.multiple,
        bands=tuple(band.model_copy(update={"ratio": math.exp(band.ratio), "low": math.exp(band.low)}) for band in bands),
        excess=excess,
        scene=scene,
        request=request,
        verdict=verdict,
    )


def bounds(rises: Array) -> tuple[float, float]:
    """Of the mean over requests [FEWEST at least], one-sided: the lower one that a FAIL rests on, the upper one of a PASS."""
    mean = _mean(rises)
    return mean.lower(1 - ALPHA / 2), mean.upper(0.95)


def judged(growth: Growth | None, *, drafts: bool = False) -> Check:
    """As a check of the comparison; with ``drafts`` nothing can be forced, and another record has to show it."""
    if growth is None and drafts:
        return Check(name="growth", verdict=None, detail="vLLM forces no tokens with speculative decoding")
    if growth is None:
        text = f"fewer than {FEWEST} forced requests of {LONG_ENOUGH} tokens"
        return check("growth", text, [Finding(verdict=Verdict.INCONCLUSIVE, text=text)])
    detail = (
        f"{growth.requests} requests: the ratio to the {growth.noise} noise becomes {growth.rise:.3g} times as large over one "
        f"({growth.low:.3g} to {growth.high:.3g}), twice is granted"
    )
    found = []
    if growth.verdict is not Verdict.PASS:
        text = f"forced logprobs: {detail}"
        if growth.excess is not None:
            text = f"forced logprobs: more than {growth.allowed:.3g} times the {growth.noise} noise from here on; {detail}"
        found.append(
            Finding(verdict=growth.verdict, text=text, scene=growth.scene, request=growth.request, position=growth.excess)
        )
    return check("growth", detail, found)


def _requests(table: Table, values: Array) -> list[Array]:
    starts = np.searchsorted(table.request, np.arange(len(table.names) + 1))
    return [values[start:end] for start, end in pairwise(starts)]


def _ratio(stretch: Array, least: float) -> float:
    """The log of specialized to noise in a stretch [positions, 2] of logarithms, the noise's mean being ``least`` at least."""
    specialized, noise = stretch.mean(axis=0)
    return float(specialized - max(noise, least))


def _rise(request: Array, least: float) -> float:
    return theil_sen(np.array([_ratio(part, least) for part in np.array_split(request, PARTS)])) * (PARTS - 1)


def _mean(values: Array) -> Estimate:
    return Estimate(float(values.mean()), float(values.std(ddof=1)) / len(values) ** 0.5, len(values))


def _bands(requests: list[Array], least: float) -> list[Band]:
    count = max(map(len, requests)) // BAND
    found = []
    for n in range(count):
        first, last = n * BAND, (n + 1) * BAND
        ratios = np.array([_ratio(own[first:last], least) for own in requests if len(own) >= last])
        if len(ratios) < FEWEST:
            break
        mean = _mean(ratios)
        found.append(Band(start=first, requests=len(ratios), ratio=mean.value, low=mean.lower(1 - ALPHA / count)))
    return found
