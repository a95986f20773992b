"""Error rates of whole runs of four benchmarks: ``python -m tests.evals.comparing.simulation [TRIALS]``.

A run is GSM8K, AIME25, GPQA-Diamond and MRCR as tests/stats/simulation.py draws them, each with its margin. Its verdict, alarms
and early stop are those of evals/comparing; other rules get the same responses: TensorRT-LLM's (unpaired, a standard deviation of
50), and a stop for any loss on discordant pairs.

Measured, 600 runs (PASS / FAIL / an alarm / stopped, at this share of the responses on average; elsewhere fails; any loss stops):

- no loss: 0.795 / 0.000 / 0.042 / 0.000, 1.000; 0.005; 0.012
- every task's loss its margin: 0.000 / 0.203 / 1.000 / 0.012, 0.996; 0.567; 0.900
- every task's twice its margin: 0.000 / 1.000 / 1.000 / 0.867, 0.586; 1.000; 1.000
- GSM8K's loss its margin, the others none: 0.048 / 0.048 / 0.915 / 0.003, 0.998; 0.018; 0.657

A stop for any loss would end two of three runs of the last kind, whatever the margin says.

The bounds of 1000 samples hold the true difference from below and above (the verdict's; by drawing items). Loss of the margin:
AIME25 0.956 and 0.974; 0.926 and 0.961. GSM8K 1319x1 0.957 and 0.952; 0.948 and 0.950. GSM8K 1319x4 0.957 and 0.967; 0.959 and
0.963. Without a loss: AIME25 0.992 and 0.990; 0.947 and 0.958. MRCR 0.950 and 0.936; 0.950 and 0.930.
"""

import sys
from collections.abc import Iterator

import numpy as np
from scipy import special

from evals.comparing import scores
from tests.stats.simulation import SETTINGS, Scores, Setting, elsewhere
from tests.stats.simulation import scores as drawn
from validate.stats import betting, bootstrap
from validate.stats.holm import holm
from validate.stats.noninferiority import difference
from validate.verdict import Verdict, worst

AIME, GPQA, MRCR = SETTINGS[0], SETTINGS[2], SETTINGS[4]
GSM8K = Setting("GSM8K 1319x4", 1319, 4, 0.965, 0.6, 0.01)
RUN = (GSM8K, AIME, GPQA, MRCR)  # the cheap one first
COVERED = (AIME, Setting("GSM8K 1319x1", 1319, 1, 0.965, 0.6, 0.01), GSM8K, MRCR)


def rates(drops: tuple[float, ...], trials: int, seed: int = 0) -> dict[str, float]:
    """Shares of runs, ``drops`` being each task's loss in margins: verdicts, alarms, stops, and what is done elsewhere.

    ``asked``: the share of the specialized arm's responses that had been asked where a run stopped or ended.
    """
    draws = np.random.default_rng(seed)
    found = dict.fromkeys(("PASS", "FAIL", "alarm", "stopped", "asked", "elsewhere", "any loss stops"), 0.0)
    for _ in range(trials):
        pairs = [drawn(setting, drop * setting.margin, draws) for setting, drop in zip(RUN, drops, strict=True)]
        verdict = worst(difference(*pair).verdict(setting.margin) for setting, pair in zip(RUN, pairs, strict=True))
        p = np.array([scores.lower(*pair)[0] for pair in pairs])
        stopped, asked = stop(pairs)
        found["PASS"] += verdict is Verdict.PASS
        found["FAIL"] += verdict is Verdict.FAIL
        found["alarm"] += bool(holm(p).min() < 0.05)
        found["stopped"] += stopped
        found["asked"] += asked
        found["elsewhere"] += any(elsewhere(*pair) for pair in pairs)
        found["any loss stops"] += any_loss_stops(pairs)
    return {name: count / trials for name, count in found.items()}


def stop(pairs: list[tuple[Scores, Scores]]) -> tuple[bool, float]:
    """Whether the run stops at any look, one after every repeat of each task, and the share of its responses asked by then."""
    planned, asked = sum(default.size for default, _ in pairs), 0
    values = np.ones(len(pairs))
    for task, (setting, (default, specialized)) in enumerate(zip(RUN, pairs, strict=True)):
        for look in range(1, setting.repeats + 1):
            asked += setting.items
            values[task] = betting.evidence(default[:, :look], specialized[:, :look], setting.margin)
            if values.mean() >= betting.STOP:
                return True, asked / planned
    return False, 1.0


def any_loss_stops(pairs: list[tuple[Scores, Scores]]) -> bool:
    """Whether a likelihood ratio of discordant pairs, the default arm's share uniform from 1/2 to 1, reaches 20 a task."""
    for default, specialized in pairs:
        wins, losses = (np.cumsum((a > b).sum(axis=0)) + 1.0 for a, b in ((default, specialized), (specialized, default)))
        with np.errstate(divide="ignore"):
            log = (wins + losses - 1) * np.log(2) + special.betaln(wins, losses) + np.log(special.betaincc(wins, losses, 0.5))
        if log.max() >= np.log(betting.STOP * len(pairs)):
            return True
    return False


def coverage(setting: Setting, drop: float, trials: int, seed: int = 0) -> dict[str, float]:
    """How often the true difference is within the one-sided 95 % bounds: of the verdict, and of drawing items."""
    draws = np.random.default_rng(seed)
    found = dict.fromkeys(("above low", "below high", "above low, drawn", "below high, drawn"), 0.0)
    for trial in range(trials):
        default, specialized = drawn(setting, drop, draws)
        bounds = difference(default, specialized)
        low, high = bootstrap.of_mean((specialized - default).mean(axis=1), 0.9, seed=trial)
        found["above low"] += bounds.low <= -drop
        found["below high"] += bounds.high >= -drop
        found["above low, drawn"] += low <= -drop
        found["below high, drawn"] += high >= -drop
    return {name: count / trials for name, count in found.items()}


def lines(trials: int) -> Iterator[str]:
    """Runs first, then bounds."""
    cases = {"no loss": (0.0,) * 4, "the margin, all": (1.0,) * 4, "twice the margin, all": (2.0,) * 4}
    for place, setting in enumerate(RUN):
        for drop in (1.0, 2.0):
            cases[f"{drop:g} margin, {setting.name}"] = tuple(drop if n == place else 0.0 for n in range(4))
    for name, drops in cases.items():
        yield f"- {name}: " + ", ".join(f"{what} {share:.3f}" for what, share in rates(drops, trials).items())
    for setting in COVERED:
        for drop in (0.0, setting.margin):
            of = ", ".join(f"{what} {share:.3f}" for what, share in coverage(setting, drop, trials).items())
            yield f"- {setting.name}, loss {100 * drop:g}: {of}"


if __name__ == "__main__":
    for line in lines(int(sys.argv[1]) if len(sys.argv) > 1 else 1000):
        print(line, flush=True)
