"""The rules: from a subject's samples to checks.

``inputs``    every value of the convolution is the exact one, but for fp32 and the path's rounding
``finite``    every error is a number
``bounded``   the error of each head's state and output is at most what the contraction allows (``bound``, derived there: certain)
``no_worse``  design rule 2 at every sampled step: at most twice the default path's error, or the floor. Each path is measured
              from its own yardstick, so that the default path's rounding to bf16, 65,536 times fp32's, does not hide what is
              added to the specialized one. The default path's error is its largest so far: both errors are sums of roundings,
              and that one of them cancels at a step says nothing of the other. The floor is what the arithmetic of a single
              step may add (``Bound.single``): where few steps make up a state, since the head forgets quickly or has begun
              only now, either path's error is that of few roundings, and twice another such error is no bound for it
``growth``    once a head has forgotten its start, its state's error no longer rises with the step

``growth`` takes samples from three memories on, two memories apart: so far apart a sample keeps exp(-2) of the one before it, so
that without growth all orders of the samples are equally likely. A head that leaves fewer than ``FEWEST`` of them (the slowest)
is not tested for growth, which is said; ``bounded`` and ``no_worse`` hold for it.
A subject whose slowest head has not gone through three memories may still rise: INCONCLUSIVE.
"""

import numpy as np
from numpy.typing import NDArray

from validate.equivalence.compare.finding import Check, Finding, check
from validate.long_output.drift.outcome import Head
from validate.long_output.drift.track import Track
from validate.stats.holm import holm
from validate.stats.trend import exponent, rises
from validate.verdict import Verdict

SETTLED = 3.0  # memories after which exp(-3) = 5 % of the start is left
APART = 2.0
FEWEST = 8  # samples: 8! = 40,320 orders, so that the least p-value of 8 heads, 8 / 8!, is 2e-4
# Chance of a false alarm per subject. 50 seeds of one subject: 5 %.
ALPHA = 1e-3
DENSE = 2.0**0.125  # of two samples that are looked at
LIMITS = {"bounded": "bound", "no_worse": "beside"}
SHOWN = 8  # findings a check


def heads(track: Track, memory: list[float]) -> list[Head]:
    """What a record keeps of each head."""
    steps, state = track.steps, track.column("state")
    bound = track.column("state_bound")
    found = []
    for n, steps_kept in enumerate(memory):
        late = _settled(steps, steps_kept)
        usable = len(late) >= FEWEST and bool((np.isfinite(state[late, n]) & (state[late, n] > 0)).all())
        found.append(
            Head(
                memory=steps_kept,
                error=float(state[-1, n]),
                largest=float(state[:, n].max()),
                output=float(track.column("output")[:, n].max()),
                bound=float(bound[-1, n]),
                samples=len(late),
                exponent=exponent(steps[late], state[late, n]) if usable else None,
                rises=rises(state[late, n]) if usable else None,
            )
        )
    return found


def checks(track: Track, of: list[Head], strays: int, *, default: bool) -> list[Check]:
    """All checks of a subject; the ``default`` path is held against nobody. ``strays``: of its convolution."""
    limits = [_limit(name, track, of) for name in LIMITS if name == "bounded" or not default]
    return [_inputs(strays), _finite(track), *limits, _growth(of, int(track.steps[-1]))]


def first_out(track: Track) -> tuple[str, int] | None:
    """The check that a sample fails first, and its step; None where all pass."""
    bad = {"finite": ~np.isfinite(track.figures[:, :2]).all((1, 2))}
    bad |= {name: (_over(track, name) > 1).any((1, 2)) for name in LIMITS}
    firsts = {name: int(track.steps[there.argmax()]) for name, there in bad.items() if there.any()}
    return min(firsts.items(), key=lambda item: item[1]) if firsts else None


def _over(track: Track, name: str) -> NDArray[np.float64]:
    """[n, 2, heads]: the state's and the output's errors as multiples of what the check allows; no number counts for nothing."""
    limits = [track.column(f"{tensor}_{LIMITS[name]}") for tensor in ("state", "output")]
    return np.nan_to_num(track.figures[:, :2] / np.stack(limits, 1), nan=0.0, posinf=np.inf)


def _limit(name: str, track: Track, of: list[Head]) -> Check:
    over = _over(track, name)
    figures = track.figures
    findings = []
    for tensor, word in enumerate(("state", "output")):
        for n, head in enumerate(of):
            out = over[:, tensor, n] > 1
            if out.any():
                first, worst = int(out.argmax()), int(over[:, tensor, n].argmax())
                text = f"{word} of head {n} ({head.title}) is out at {int(out.sum())} of {len(out)} samples; worst at step "
                error = figures[worst, tensor, n]
                text += f"{track.steps[worst]}: error {error:.2e}, {over[worst, tensor, n]:.3g} times what is allowed"
                findings.append(Finding(verdict=Verdict.FAIL, text=text, position=int(track.steps[first])))
    findings.sort(key=lambda finding: finding.position or 0)
    return check(name, f"at most {over.max():.3g} of what is allowed", findings[:SHOWN])


def _finite(track: Track) -> Check:
    bad = ~np.isfinite(track.figures[:, :2])
    findings = []
    if bad.any():
        sample, _, head = (int(i) for i in np.argwhere(bad)[0])
        where = int(track.steps[sample])
        findings.append(Finding(verdict=Verdict.FAIL, text=f"an error of head {head} is not a number", position=where))
    return check("finite", f"{len(track.steps)} samples", findings)


def _inputs(strays: int) -> Check:
    text = f"{strays} values of the convolution are off by more than fp32 and the path's rounding explain"
    return check("inputs", f"{strays} strays", [Finding(verdict=Verdict.FAIL, text=text)] if strays else [])


def _growth(of: list[Head], steps: int) -> Check:
    tested = [n for n, head in enumerate(of) if head.rises is not None]
    adjusted = holm(np.array([of[n].rises for n in tested], dtype=np.float64))
    findings = [
        Finding(
            verdict=Verdict.FAIL,
            text=f"the state's error of head {n} ({of[n].title}) grows like steps to the {of[n].exponent:.2f} once the head has "
            f"forgotten its start (p = {p:.2g} of {len(tested)} heads)",
        )
        for n, p in zip(tested, adjusted, strict=True)
        if p < ALPHA
    ]
    for n, head in enumerate(of):
        if steps < SETTLED * head.memory:
            text = f"head {n} ({head.title}) has not forgotten its start in {steps:,} steps: its error may still rise; "
            text += f"--steps {SETTLED * head.memory:,.0f} or so would do"
            findings.append(Finding(verdict=Verdict.INCONCLUSIVE, text=text))
    left = [f"{n}" for n, head in enumerate(of) if head.rises is None]
    detail = f"least p {adjusted.min():.2g} of {len(tested)} heads" if tested else "no head tested"
    return check("growth", detail + (f"; too slow to be tested: {', '.join(left)}" if left else ""), findings)


def _settled(steps: NDArray[np.int64], memory: float) -> NDArray[np.int64]:
    """Places of the samples that ``growth`` looks at."""
    chosen: list[int] = []
    wanted = SETTLED * memory
    for place, step in enumerate(steps):
        if step >= wanted:
            chosen.append(place)
            wanted = max(step * DENSE, step + APART * memory)
    return np.array(chosen, dtype=np.int64)
