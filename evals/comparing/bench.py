"""What comparing costs: ``python -m evals.comparing.bench [RESPONSES]``, a million in each of two arms without it.

Times depend on the machine and on what else it does; the ratio of processor seconds to those in which the standard library parses
the same lines as JSON can be compared between machines. The memory is the most that the comparing process held.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from evals.grading.response import Outcome
from evals.records import folder
from evals.records.model import Answered, EvalManifest, TaskPlan
from validate.records import provenance
from validate.records.arm import SPECIALIZED, StepCount, Steps

# Of a million: items, of as many repeats as make the share of all responses, and margin.
TASKS = {"aime25": (30, 0.1, 0.02), "gpqa_diamond": (198, 0.2, 0.015), "gsm8k": (1319, 0.5, 0.01), "mrcr_openai": (0, 0.2, 0.04)}
CONTENT = 300  # characters of each
LIMITS = {"seconds": 60.0, "GiB": 2.0}


def main(responses: int) -> int:
    """Prints the figures; exit code 1 where a limit is exceeded."""
    with tempfile.TemporaryDirectory() as there:
        for name in ("default", "specialized"):
            _record(Path(there) / name, name, responses)
        start = time.process_time()
        for name in ("default", "specialized"):
            with (Path(there) / name / folder.RESPONSES).open(encoding="utf-8") as file:
                for row in file:
                    json.loads(row)
        parsed = time.process_time() - start
        start = time.perf_counter()
        command = [sys.executable, "-m", "validate", "compare-evals", f"{there}/default", f"{there}/specialized"]
        done = subprocess.run([*command, "--output", f"{there}/runs"], capture_output=True, text=True)
        seconds = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    memory, busy = used.ru_maxrss / 2**20, used.ru_utime + used.ru_stime
    last = done.stdout.strip().splitlines()[-1:] or [done.stderr]
    print(f"two arms of {responses} responses: {last[0].split()[0]} in {seconds:.1f} s, {memory:.2f} GiB")
    print(f"{busy:.1f} processor seconds, {busy / parsed:.2f} times as many as parsing their lines as JSON ({parsed:.1f} s)")
    return int(seconds > LIMITS["seconds"] or memory > LIMITS["GiB"] or done.returncode == 3)


def _record(path: Path, name: str, responses: int) -> None:
    path.mkdir()
    plans, draws = [], np.random.default_rng(len(name))
    for task, (items, share, margin) in TASKS.items():
        items = items or int(share * responses)
        plans.append(_plan(task, items, max(1, int(share * responses) // items), margin))
    folder.write_manifest(path, _manifest(name, tuple(plans)))
    for plan in plans:
        for repeat in range(plan.repeats):
            rates = np.random.default_rng(0).beta(9, 1, plan.items)
            right = draws.random(plan.items) < rates
            tokens = draws.lognormal(7.0, 0.5, plan.items).astype(int)
            folder.append(path, (_answered(plan, n, repeat, bool(right[n]), int(tokens[n])) for n in range(plan.items)))
    counted = StepCount.model_validate({"path": name, "kind": "decode", "rows": 8, "q": 1, "reason": "", "count": 9})
    folder.write_steps(path, Steps(source="bench", by_scene={plan.name: (counted,) for plan in plans}))


def _answered(plan: TaskPlan, item: int, repeat: int, right: bool, tokens: int) -> Answered:
    ratio = plan.metric == "ratio"
    return Answered(
        task=plan.name,
        item=f"{item}",
        repeat=repeat,
        stratum=f"{2 << item % 3} needles" if ratio else "",
        outcome=Outcome.SCORED,
        scores={plan.metric: float(right) if right or not ratio else (item % 97) / 970},
        answer="18",
        finish="stop",
        content="word " * (CONTENT // 5),
        digest="0" * 16,
        prompt_tokens=100,
        tokens=tokens,
        seconds=1.5,
    )


def _plan(task: str, items: int, repeats: int, margin: float) -> TaskPlan:
    metric = "ratio" if task == "mrcr_openai" else "exact"
    fields = {"name": task, "items": items, "repeats": repeats, "metric": metric, "margin": margin}
    return TaskPlan.model_validate(fields | {"data": "drawn", "digest": "", "generation": {}})


def _manifest(name: str, plans: tuple[TaskPlan, ...]) -> EvalManifest:
    return EvalManifest(
        name=name,
        suite="bench",
        decode_backend=SPECIALIZED if name == "specialized" else "auto",
        stand_in=True,
        engine={},
        model="none",
        tasks=plans,
        concurrency=1,
        environment={},
        versions={},
        source=provenance.source(),
        commit=None,
        dirty=None,
        machine=provenance.machine(),
        start="2026-01-01T00:00:00Z",
        end="2026-01-01T00:00:00Z",
    )


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000))
