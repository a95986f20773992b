"""Error rates of the non-inferiority verdict at the benchmarks' settings: ``python -m tests.stats.simulation [TRIALS]``.

Items have success rates of mean p and of correlation rho between two repeats of one item (beta-distributed); the specialized
arm's are lower by a factor. MRCR's scores are 1 or, of a wrong text, a small ratio. Beside it the test that is in use elsewhere
(TensorRT-LLM's accuracy suite): unpaired, one-sided, alpha 0.05, a standard deviation of 50 points whatever the scores are, at
the same number of responses.

Measured, 20,000 trials (drop 0 / the margin / twice the margin):

- AIME25 30x32, p 0.985, rho 0.3, margin 2 points: PASS 0.954 / 0.052 / 0.000; FAIL 0.000 / 0.034 / 0.818; elsewhere fails
  0.000 / 0.005 / 0.596
- AIME25 30x32, p 0.9, rho 0.4, margin 3: PASS 0.856 / 0.045 / 0.000; FAIL 0.000 / 0.054 / 0.733; 0.001 / 0.252 / 0.956
- GPQA 198x16, p 0.935, rho 0.5, margin 1.5: PASS 0.956 / 0.050 / 0.000; FAIL 0.000 / 0.049 / 0.877; 0.000 / 0.119 / 0.960
- GSM8K 1319x1, p 0.965, rho 0.6, margin 1: PASS 0.705 / 0.051 / 0.000; FAIL 0.000 / 0.042 / 0.506; 0.000 / 0.000 / 0.021
- MRCR 8 needles 800x1, p 0.55, rho 0.6, margin 4: PASS 0.873 / 0.050 / 0.000; FAIL 0.000 / 0.050 / 0.807; 0.002 / 0.469 / 0.993

The test used elsewhere fails a loss of twice the margin nearly never (GSM8K), or half of the losses of the margin (MRCR).
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from validate.stats.noninferiority import difference
from validate.verdict import Verdict

Scores = NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    """``rate`` and ``rho``: of an item's success; ``margin``: of the verdict, as a share of 1."""

    name: str
    items: int
    repeats: int
    rate: float
    rho: float
    margin: float
    needles: bool = False


SETTINGS = (
    Setting("AIME25 30x32", 30, 32, 0.985, 0.3, 0.02),
    Setting("AIME25 30x32, harder", 30, 32, 0.90, 0.4, 0.03),
    Setting("GPQA 198x16", 198, 16, 0.935, 0.5, 0.015),
    Setting("GSM8K 1319x1", 1319, 1, 0.965, 0.6, 0.01),
    Setting("MRCR 8 needles, 800x1", 800, 1, 0.55, 0.6, 0.04, needles=True),
)


def scores(setting: Setting, drop: float, draws: np.random.Generator) -> tuple[Scores, Scores]:
    """[items, repeats] of the default and of the specialized arm, whose mean is lower by ``drop``."""
    size = 1 / setting.rho - 1
    rates = draws.beta(setting.rate * size, (1 - setting.rate) * size, setting.items)[:, None]
    shape = (setting.items, setting.repeats)
    made = []
    for lost in (0.0, drop / (0.9 if setting.needles else 1.0)):  # a wrong text still has a ratio of 0.1
        right = draws.random(shape) < rates * (1 - lost / setting.rate)
        made.append(np.where(right, 1.0, 0.05 + 0.1 * draws.random(shape)) if setting.needles else right.astype(float))
    return made[0], made[1]


def elsewhere(default: Scores, specialized: Scores) -> bool:
    """Whether the unpaired test with a standard deviation of 50 points fails the specialized arm."""
    return bool(specialized.mean() < default.mean() - 1.645 * 0.5 * np.sqrt(2 / default.size))


def rates(setting: Setting, drop: float, trials: int, seed: int = 0) -> dict[str, float]:
    """Shares of PASS, FAIL, and of failures by the test used elsewhere."""
    draws, found = np.random.default_rng(seed), {"PASS": 0, "FAIL": 0, "elsewhere": 0}
    for _ in range(trials):
        default, specialized = scores(setting, drop, draws)
        verdict = difference(default, specialized).verdict(setting.margin)
        found["PASS"] += verdict is Verdict.PASS
        found["FAIL"] += verdict is Verdict.FAIL
        found["elsewhere"] += elsewhere(default, specialized)
    return {name: count / trials for name, count in found.items()}


def lines(trials: int) -> Iterator[str]:
    """A line a setting."""
    for setting in SETTINGS:
        found = [rates(setting, drop * setting.margin, trials) for drop in (0, 1, 2)]
        by = {name: " / ".join(f"{one[name]:.3f}" for one in found) for name in ("PASS", "FAIL", "elsewhere")}
        of = f"- {setting.name}, p {setting.rate}, rho {setting.rho}, margin {100 * setting.margin:g}"
        yield f"{of}: PASS {by['PASS']}; FAIL {by['FAIL']}; elsewhere fails {by['elsewhere']}"


if __name__ == "__main__":
    for line in lines(int(sys.argv[1]) if len(sys.argv) > 1 else 2000):
        print(line, flush=True)
