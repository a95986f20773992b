"""Forced decoding: the specialized path's differences to the default one, held against the default path's own noise.

The noise is that of another default arm against the default one (``allowance.Yardstick``): the float32 arm's where there is one,
else the A/A arm's. ``MULTIPLE`` below is what the yardstick multiplies it by.

Statistics, of all positions and of each group of them (a scene, a class of positions):

- ``size``: rms of a logit's difference, nats (differences of logprobs over their scale, estimates.py).
- ``shift``: the mean difference of the logprob over requests, nats; it may be as large as what being batched otherwise does to
  the mean of one request (rms over requests), so a shift that is common to all requests stands out and that of one does not.
- ``best``: the same of the default path's best token. Tokens that are drawn from the model itself are as likely after any small
  change, to first order (their mean logprob is at its maximum): a temperature, say, does not shift them, but the best ones.
- ``kl``: mean divergence a token, nats; quadratic in the noise, so the square of ``MULTIPLE`` is allowed.
- ``ranks``: share of positions where the chosen token's rank changes.
- ``growth``: how much the rms difference rises from a request's first to its last token (Theil and Sen's slope over eight equal
  parts): by no more than ``MULTIPLE`` times the noise's rise and the whole of it besides.

Each is what the specialized path shows less what is allowed: the greater of ``MULTIPLE`` times the noise's figure and of the one
that ``allowance.floor`` makes of the dtype's rounding. A group is allowed what all positions are, at least: a scene whose two
default recordings happened to be batched alike has little noise of its own, and says nothing of what its requests may show.
Requests are the clusters: positions of one depend on each other through the cache and the state. Both sides are of the same
requests and positions, so the jackknife of the difference knows how they vary together.

A mean hides an error in few requests. So each request has two more, ``request size`` (rms over it) and ``largest`` (its largest
difference over scale), held against a prediction limit for the largest of as many requests' noise (stats/prediction.py), moved by
the scene's own median ratio of specialized to noise, from 1 to ``MULTIPLE``: how noisy the path is in a scene is the group's
matter, an outlier is one among its like. Where the noise of most requests is below the floor it does not say how noise varies
between requests, some of which a network amplifies; the specialized path's own does: their median absolute deviation, which
outliers do not move. Scenes of fewer than ``FEWEST`` requests get ``MULTIPLE``.

**False alarms.** ``ALPHA`` is the nominal chance of any FAIL among all of these where the specialized path is as far off as is
allowed: half for all groups' statistics together (Holm), a quarter for each of the two of requests (Bonferroni). Measured (the
command is in tests/equivalence/test_forced.py): none in 400 comparisons of paths with once and twice the default's noise; 5 in
200 at the very edge, all by the limits of requests: there one arm's noise is all of a difference, and varies more between
requests than that of two arms together.

**PASS** needs each statistic over all positions shown to be within what is allowed (one-sided 95 % bound); all six
must be, so no adjustment is due (R. L. Berger, "Multiparameter hypothesis testing and acceptance sampling", Technometrics 24
(1982)). Groups find what the whole hides: they can FAIL; those of fewer than ``FEWEST`` requests are left to the requests' own
limits, and groups that are not decided are listed, for in a hundred small groups one never would be.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from validate.equivalence.compare.allowance import RESOLUTION, Yardstick
from validate.equivalence.compare.table import Table
from validate.records.model import Record
from validate.stats.holm import holm
from validate.stats.jackknife import Estimate, jackknife
from validate.stats.prediction import deviation, largest_log
from validate.stats.slope import theil_sen
from validate.verdict import Verdict

ALPHA = 0.01
CONFIDENCE = 0.95
FEWEST = 5
FEW_RANKS = 0.01  # a share that is never too many: where no rank changes, the few near ties would not decide anything
PARTS, LONG_ENOUGH = 8, 16  # equal parts of a request whose slope is taken; tokens for that

Array = NDArray[np.float64]
_BEST, _KL, _LACKING, _RANK = range(1, 5)  # columns of Table.specialized and Table.noise
# Columns of a group's sums, one row a request.
(
    _N,
    _W,
    _SQ_S,
    _SQ_A,
    _MEAN_S,
    _MEAN_A2,
    _KL_S,
    _KL_A,
    _RANK_S,
    _RANK_A,
    _SPREAD,
    _NEAR,
    _RISE_S,
    _RISE_A,
    _LONG,
    _BEST_S,
    _BEST_A2,
) = range(17)


class Statistic(Record):
    """One statistic of one group. ``specialized``, ``noise`` and ``allowed`` in the statistic's unit.

    ``low`` and ``high``: one-sided 95 % bounds of specialized less allowed. ``p``: of "it is at most allowed", adjusted for all.
    ``tokens_needed``: forced tokens in all that would decide an INCONCLUSIVE one, None where more would not.
    """

    name: str
    group: str
    requests: int
    tokens: int
    specialized: float
    noise: float
    allowed: float
    low: float
    high: float
    p: float
    verdict: Verdict
    tokens_needed: int | None = None


class OfRequest(Record):
    """A request beyond the limit of one. ``position``: of its largest difference."""

    name: str
    scene: str
    request: str
    position: int
    specialized: float
    noise: float
    allowed: float


class Judgement(Record):
    """All statistics, and the requests that are beyond their limits. Rms and largest differences are in nats of a logit."""

    statistics: tuple[Statistic, ...]
    requests: tuple[OfRequest, ...]
    requests_count: int
    tokens: int
    kl_lacking: float


def judge(table: Table, yardstick: Yardstick, whole: Table | None = None) -> Judgement:
    """``whole``: what ``table`` is the first part of, whose noise sets the limits."""
    rises = _rises(table)
    rows = []
    of_all = dict.fromkeys(_STATISTICS, 0.0)
    for group, mask in table.groups().items():
        sums = _sums(table, mask, rises if group == "all" or group.startswith("scene") else None, yardstick.floor)
        if len(sums) < FEWEST:
            continue
        for name, parts in _STATISTICS.items():
            estimate, figures = _statistic(sums, parts, yardstick, of_all[name])
            rows.append((name, group, sums, estimate, figures))
            if group == "all":
                of_all[name] = figures[2]
    rows = [row for row in rows if row[0] != "growth" or row[2][:, _LONG].sum() >= FEWEST]
    adjusted = holm(np.array([row[3].above() for row in rows], dtype=np.float64))
    statistics = [
        _judged(name, group, sums, estimate, figures, float(p))
        for (name, group, sums, estimate, figures), p in zip(rows, adjusted, strict=True)
    ]
    return Judgement(
        statistics=tuple(statistics),
        requests=_beyond(table, yardstick, whole or table),
        requests_count=len(table.names),
        tokens=len(table.request),
        kl_lacking=float(table.specialized[:, _LACKING].mean()) if len(table.request) else 0.0,
    )


def _sums(table: Table, mask: NDArray[np.bool_], rises: Array | None, floor: float) -> Array:
    """[requests with a position in the group, 17]."""
    request = table.request[mask]

    def of(values: Array) -> Array:
        return np.bincount(request, weights=values, minlength=len(table.names)).astype(np.float64)

    specialized, noise, move = table.specialized[mask], table.noise[mask], table.move[mask]
    n = of(np.ones(len(request)))
    mean_s, mean_a = of(specialized[:, 0]) / np.maximum(n, 1), of(noise[:, 0]) / np.maximum(n, 1)
    # Ranks change where two logits, each moved by the floor, can pass each other: within two standard deviations of their
    # difference.
    near = (table.gap[mask] <= 2 * np.sqrt(2) * floor).astype(float)
    columns = [
        n,
        of(move**2),
        of(specialized[:, 0] ** 2),
        of(noise[:, 0] ** 2),
        mean_s,
        mean_a**2,
        of(specialized[:, _KL]),
        of(noise[:, _KL]),
        of(specialized[:, _RANK]),
        of(noise[:, _RANK]),
        of(table.spread[mask]),
        of(near),
        *(rises if rises is not None else np.zeros((3, len(table.names)))),
        of(specialized[:, _BEST]) / np.maximum(n, 1),
        (of(noise[:, _BEST]) / np.maximum(n, 1)) ** 2,
    ]
    return np.stack(columns, axis=1)[n > 0]


# Each gives specialized, noise, and the floor's figure, of means over requests [..., 17] and the rms floor of a logit.
_Parts = Callable[[Array, float], tuple[Array, Array, Array]]


def _size(m: Array, floor: float) -> tuple[Array, Array, Array]:
    return np.sqrt(m[..., _SQ_S] / m[..., _W]), np.sqrt(m[..., _SQ_A] / m[..., _W]), np.full(m.shape[:-1], floor)


def _shift(m: Array, floor: float) -> tuple[Array, Array, Array]:
    # The floor as independent noise of each token: its mean over a request of n tokens is sqrt(n) times less.
    least = floor * np.sqrt(m[..., _W] / m[..., _N]) / np.sqrt(np.maximum(m[..., _N], 1.0)) + RESOLUTION
    return np.abs(m[..., _MEAN_S]), np.sqrt(m[..., _MEAN_A2]), least


def _best(m: Array, floor: float) -> tuple[Array, Array, Array]:
    return np.abs(m[..., _BEST_S]), np.sqrt(m[..., _BEST_A2]), _shift(m, floor)[2]


def _kl(m: Array, floor: float) -> tuple[Array, Array, Array]:
    # Half the variance of a logit's difference under the default arm's probabilities; 2**-22: sums of fp32 logprobs.
    least = floor**2 / 2 * m[..., _SPREAD] / m[..., _N] + 2.0**-22
    return m[..., _KL_S] / m[..., _N], m[..., _KL_A] / m[..., _N], least


def _ranks(m: Array, floor: float) -> tuple[Array, Array, Array]:
    return m[..., _RANK_S] / m[..., _N], m[..., _RANK_A] / m[..., _N], m[..., _NEAR] / m[..., _N] + FEW_RANKS


def _growth(m: Array, floor: float) -> tuple[Array, Array, Array]:
    long = np.maximum(m[..., _LONG], 1e-12)
    return m[..., _RISE_S] / long, m[..., _RISE_A] / long, np.full(m.shape[:-1], floor)


_STATISTICS: dict[str, _Parts] = {"size": _size, "shift": _shift, "best": _best, "kl": _kl, "ranks": _ranks, "growth": _growth}


def _statistic(sums: Array, parts: _Parts, yardstick: Yardstick, of_all: float) -> tuple[Estimate, tuple[float, float, float]]:
    """Specialized less allowed, and specialized, noise and allowed; ``of_all`` is the least that is allowed."""
    multiple = yardstick.multiple

    def figures(means: Array) -> tuple[Array, Array, Array]:
        specialized, noise, least = parts(means, yardstick.floor)
        if parts is _growth:
            whole = np.maximum(np.sqrt(means[..., _SQ_A] / means[..., _W]), least)
            allowed = multiple * np.maximum(noise, 0.0) + whole
        else:
            allowed = np.maximum((multiple**2 if parts is _kl else multiple) * noise, least)
        return specialized, noise, np.maximum(allowed, of_all)

    def less(means: Array) -> Array:
        specialized, _, allowed = figures(means)
        return specialized - allowed

    specialized, noise, allowed = (float(figure) for figure in figures(sums.mean(axis=0)))
    return jackknife(sums, less), (specialized, noise, allowed)


def _judged(name: str, group: str, sums: Array, estimate: Estimate, figures: tuple[float, float, float], p: float) -> Statistic:
    tokens, high = int(sums[:, _N].sum()), estimate.upper(CONFIDENCE)
    verdict = Verdict.FAIL if p < ALPHA / 2 else Verdict.PASS if high <= 0 else Verdict.INCONCLUSIVE
    needed = estimate.clusters_needed(CONFIDENCE) if verdict is Verdict.INCONCLUSIVE else None
    return Statistic(
        name=name,
        group=group,
        requests=len(sums),
        tokens=tokens,
        specialized=figures[0],
        noise=figures[1],
        allowed=figures[2],
        low=estimate.lower(CONFIDENCE),
        high=high,
        p=p,
        verdict=verdict,
        tokens_needed=None if needed is None else -(-tokens * needed // len(sums)),
    )


def _rises(table: Table) -> Array:
    """[3, requests]: the rise of the rms difference over the request, specialized and noise, and whether it is long enough."""
    rises = np.zeros((3, len(table.names)))
    starts = np.searchsorted(table.request, np.arange(len(table.names) + 1))
    for n, (start, end) in enumerate(pairwise(starts)):
        if end - start >= LONG_ENOUGH:
            edges = start + (end - start) * np.arange(PARTS) // PARTS
            weight = np.add.reduceat(table.move[start:end] ** 2, edges - start)
            for row, columns in enumerate((table.specialized, table.noise)):
                rms = np.sqrt(np.add.reduceat(columns[start:end, 0] ** 2, edges - start) / weight)
                rises[row, n] = theil_sen(rms) * (PARTS - 1)
            rises[2, n] = 1.0
    return rises


def _beyond(table: Table, yardstick: Yardstick, whole: Table) -> tuple[OfRequest, ...]:
    """Requests beyond the limits of one, the furthest first. The rms of a request that is cut off is not judged."""
    count, lengths, floor = len(whole.names), np.bincount(whole.request), yardstick.floor
    if count < FEWEST:
        return ()
    present = np.arange(len(table.names))
    # By the floor alone, of normal noise: the tail of a mean of n squares (B. Laurent and P. Massart, Annals of Statistics 28
    # (2000), lemma 1), and the quantile of the largest of all.
    k = float(norm.isf(ALPHA / 4 / count))
    floors = {
        "request size": floor**2 * (1 + k * np.sqrt(2 / lengths) + k**2 / lengths),
        "largest": np.full(count, (floor * float(norm.isf(ALPHA / 8 / len(whole.request)))) ** 2),
    }
    found = []
    for name, least in floors.items():
        judged = present if name == "largest" else present[np.bincount(table.request) == lengths[present]]
        if not len(judged):
            continue
        specialized, noise = _of_requests(table, name)[judged, 0], _of_requests(whole, name)[:, 1]
        allowed = np.maximum(_limits(whole, judged, specialized, noise, yardstick), least[judged])
        for n in np.flatnonzero(specialized > allowed):
            scene, request = table.names[judged[n]]
            figures = [float(np.sqrt(value)) for value in (specialized[n], noise[judged[n]], allowed[n])]
            found.append(
                OfRequest(
                    name=name,
                    scene=scene,
                    request=request,
                    position=table.largest(table.request == judged[n])[1],
                    specialized=figures[0],
                    noise=figures[1],
                    allowed=figures[2],
                )
            )
    return tuple(sorted(found, key=lambda request: -request.specialized / request.allowed))


def _limits(whole: Table, judged: NDArray[np.int64], specialized: Array, noise: Array, yardstick: Yardstick) -> Array:
    """[judged]: of squares; ``noise`` is of all requests. Below the floor it does not say how it varies between requests."""
    least = (yardstick.floor / yardstick.multiple) ** 2
    logs = [np.log(np.maximum(squares, least)) for squares in (specialized, noise)]
    limit = largest_log(logs[1], ALPHA / 4)
    if np.mean(noise <= least) > 0.5:
        limit = replace(limit, spread=max(limit.spread, deviation(logs[0])))
    most = min(limit.value + 2 * np.log(yardstick.multiple), 700.0)
    scenes = np.array([whole.names[n][0] for n in judged])
    limits = np.full(len(judged), most)
    for scene in dict.fromkeys(whole.names[n][0] for n in judged):
        own = scenes == scene
        if own.sum() >= FEWEST:
            moved = limit.moved(logs[0][own] - logs[1][judged[own]])
            limits[own] = np.clip(moved, min(limit.value, most), most)
    return np.asarray(np.exp(limits))


def _of_requests(table: Table, name: str) -> Array:
    """Squares, nats² of a logit [requests, 2]: specialized and noise."""
    starts = np.searchsorted(table.request, np.arange(len(table.names)))
    differences = np.stack([table.specialized[:, 0], table.noise[:, 0]], axis=1)
    move = table.move[:, None]
    if name == "largest":
        return np.asarray(np.maximum.reduceat((differences / move) ** 2, starts))
    return np.asarray(np.add.reduceat(differences**2, starts) / np.add.reduceat(move**2, starts))
