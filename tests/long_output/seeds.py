"""False alarms of long outputs: sound arms compared many times.

python -m tests.long_output.seeds DEFAULT AGAIN SPECIALIZED [FLOAT32] [--seeds 50] [--take 16]

DEFAULT and the others are recorded arms of ``tests/long_output/many.toml``. A seed draws which
``--take`` of the outputs are compared; each output has its own prompt and sampling seed, so a seed varies prompts, samples and
what is forced. AGAIN need not replay (``-k 'long and not replayed'``): nothing forced is judged of it then. Every seed is
compared twice: the specialized arm with the default one, and the default path with itself, of which the A/A arm takes the
specialized one's place (other sampling seeds, other batches).
"""

import argparse
import random
from collections import Counter
from pathlib import Path

from validate.equivalence.arm import LongOutputs, load
from validate.equivalence.compare.arms import Arms, Pair
from validate.equivalence.compare.comparison import forced_check, measure
from validate.equivalence.compare.finding import Check
from validate.long_output.comparing import growth, lengths, rates
from validate.records import arm_folder
from validate.verdict import Verdict, worst


def checks(arms: Arms, pairs: list[Pair], asked: LongOutputs) -> list[Check]:
    """What depends on the outputs that are drawn."""
    outputs = [pair for pair in pairs if pair.default.scene == asked.outputs]
    seen = rates.rates(outputs, asked)
    found = [
        Check(name="signals", verdict=worst(r.verdict for r in seen), detail=""),
        Check(name="lengths", verdict=lengths.compare(outputs, asked.length).verdict, detail=""),
    ]
    measured = measure(arms, pairs)
    if measured.judgement is not None:
        found.append(growth.judged(growth.measure(measured.forced, measured.yardstick)))
        found.append(forced_check(measured.judgement, measured.forced, measured.pairs, measured.yardstick.noise))
    return found


def drawn(pairs: list[Pair], seed: int, take: int, asked: LongOutputs) -> list[Pair]:
    names = sorted(pair.default.request for pair in pairs if pair.default.scene == asked.outputs)
    chosen = set(random.Random(seed).sample(names, take))
    return [pair for pair in pairs if pair.default.request in chosen]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--take", type=int, default=16)
    given = parser.parse_args()
    asked = load("long-cpu").long
    assert asked is not None
    arms = Arms(*(arm_folder.read(folder) for folder in given.folders))
    default, again, specialized, noise = (
        {t.key: t for t in arm.transcripts} for arm in (arms.default, arms.again, arms.specialized, arms.float32 or arms.again)
    )
    every = [Pair(t, again.get(t.key, t), specialized[t.key], noise.get(t.key)) for t in default.values()]
    families = {
        "specialized": every,
        "default-again": [Pair(p.default, p.again, p.again, p.noise) for p in every if p.default.key in again],
    }
    for name, pairs in families.items():
        counted: dict[str, Counter[str]] = {}
        verdicts: Counter[str] = Counter()
        for seed in range(given.seeds):
            found = checks(arms, drawn(pairs, seed, given.take, asked), asked)
            for one in found:
                counted.setdefault(one.name, Counter())[str(one.verdict)] += 1
            verdicts[str(worst(one.verdict for one in found if one.verdict is not None))] += 1
        alarms = verdicts[Verdict.FAIL] + verdicts[Verdict.INVALID]
        print(f"{name}: {alarms} alarms in {given.seeds} seeds, {dict(verdicts)}", flush=True)
        for check_name, counts in counted.items():
            print(f"  {check_name}: {dict(counts)}")


if __name__ == "__main__":
    main()
