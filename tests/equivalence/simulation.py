"""How often a comparison is wrong, by simulation with the toy engine: more repeats than a test has time for.

python -m tests.equivalence.simulation alarms REPEATS MULTIPLE [NOISE [DTYPE]]   # false alarms; specialized noise over the
default's python -m tests.equivalence.simulation faults REPEATS                            # how often each planted fault is
found, and by what
"""

import sys
from collections import Counter
from statistics import median

from tests.equivalence.faults import FAULTS
from tests.equivalence.toy import Fault, Plan, arms
from validate.equivalence.compare.comparison import compare
from validate.equivalence.compare.detected import Detection, detected_by
from validate.verdict import Verdict


def alarms(repeats: int, multiple: float, noise: float = 0.02, dtype: str = "bfloat16", growth: float = 0.0) -> Counter[str]:
    """Verdicts, and the checks that did not pass. Every comparison has another model, other prompts and other noise."""
    found: Counter[str] = Counter()
    for seed in range(1, repeats + 1):
        comparison = compare(arms(Plan(seed, requests=6, tokens=32), noise, multiple, rounds_to=dtype, growth=growth))
        found[str(comparison.verdict)] += 1
        for check in comparison.checks:
            if check.verdict not in (Verdict.PASS, None):
                found[f"{check.name} {check.verdict}"] += 1
    return found


def faults(repeats: int, noise: float = 0.02, dtype: str = "bfloat16") -> None:
    """A row a fault: in how many repeats found, by which check first, after how many tokens; the common comparison.

    Numbers of tokens are medians; an arm decodes 3,840.
    """
    for name, fault in FAULTS.items():
        found = [detection(fault, seed, noise, dtype) for seed in range(1, repeats + 1)]
        seen = [d for d in found if d is not None]
        first = Counter(d.first for d in seen).most_common()
        common = [d.common_practice for d in seen if d.common_practice is not None]
        needed = [median(numbers) if numbers else None for numbers in ([d.tokens[d.first] for d in seen], common)]
        print(f"{name}: {len(seen)} of {repeats}, {first}, {needed[0]}; common {len(common)}, {needed[1]}", flush=True)


def detection(fault: Fault, seed: int, noise: float = 0.02, dtype: str = "bfloat16") -> Detection | None:
    """What finds the fault in a specialized path with twice the default's noise."""
    sound = arms(Plan(seed=seed), noise, rounds_to=dtype)
    faulty = arms(Plan(seed=seed), noise, fault=fault, rounds_to=dtype).specialized
    return detected_by(sound.default, sound.again, sound.specialized, faulty)


if __name__ == "__main__":
    what, repeats, *rest = sys.argv[1:]
    if what == "faults":
        faults(int(repeats), *map(float, rest[:1]), *rest[1:2])
    else:
        print(rest, dict(alarms(int(repeats), *map(float, rest[:2]), *rest[2:3], *map(float, rest[3:]))), flush=True)
