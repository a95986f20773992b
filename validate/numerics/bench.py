"""``bench``: cases per second, and what each stage and each of its parts costs.

One process and one thread. Seconds depend on the machine; the shares are taken in one run, so they can be compared
between machines. Each case is judged twice and the second time counts: the first one draws the stage's cached weights.
"""

import importlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from rich.progress import track

from validate.numerics import judge, selection, subjects
from validate.numerics.case import Case
from validate.numerics.session import Session
from validate.paths import Subject
from validate.records import folder as records
from validate.records.model import NotRun
from validate.report import tables
from validate.verdict import Verdict

Parts = dict[str, float]  # seconds by part: build, reference, each subject, checks


def run(session: Session) -> int:
    """Measures the cases that meet every size and kind of input; writes ``bench.md`` and ``bench.json``."""
    torch.set_num_threads(1)
    arguments = session.manifest.arguments
    made = subjects.make(session.manifest.profile, arguments.planted, arguments.vllm_src)
    cases = selection.cover(session.cases)
    stages: dict[str, list[Parts]] = defaultdict(list)
    for case in track(cases, "measuring", console=session.out, transient=True):
        judge.judge(case, made)
        stages[case.stage].append(_measure(case, made))
    text = _render(stages)
    records.write(session.folder, "bench.md", text)
    records.write(session.folder, "bench.json", json.dumps(stages, indent=2) + "\n")
    note = NotRun(what="verdicts", why="bench measures time and judges nothing")
    session.close(Verdict.PASS, 0, [note], ended=True)
    session.out.print(text, markup=False, soft_wrap=True)
    session.out.print(f"record: {session.folder}", soft_wrap=True)
    return 0


def _measure(case: Case, made: list[Subject]) -> Parts:
    parts: Parts = {"build": 0.0, "reference": 0.0}
    module = importlib.import_module(f"validate.reference.{case.stage}")
    with _timed(judge, "build", parts), _timed(module, "reference", parts):
        start = time.perf_counter()
        judgements = judge.judge(case, made)
        total = time.perf_counter() - start
    for judgement in judgements:
        parts[judgement.subject] = 2 * judgement.seconds  # it runs twice: the second call shows that it repeats
    parts["checks"] = total - sum(parts.values())
    return parts


@contextmanager
def _timed(module: Any, name: str, parts: Parts) -> Iterator[None]:
    """Adds the seconds spent in a module's function to ``parts``."""
    function: Callable[..., Any] = getattr(module, name)

    def timed(*arguments: Any, **keywords: Any) -> Any:
        start = time.perf_counter()
        try:
            return function(*arguments, **keywords)
        finally:
            parts[name] += time.perf_counter() - start

    setattr(module, name, timed)
    try:
        yield
    finally:
        setattr(module, name, function)


def _render(stages: dict[str, list[Parts]]) -> str:
    seconds = {stage: sum(sum(parts.values()) for parts in cases) for stage, cases in stages.items()}
    total, count = sum(seconds.values()), sum(map(len, stages.values()))
    names = list(dict.fromkeys(name for cases in stages.values() for parts in cases for name in parts))
    body = []
    for stage, cases in stages.items():
        shares = [sum(parts.get(name, 0.0) for parts in cases) / seconds[stage] for name in names]
        cells = [f"{share:.0%}" for share in shares]
        body.append([stage, len(cases), f"{seconds[stage] / len(cases):.3f}", f"{seconds[stage] / total:.0%}", *cells])
    head = f"# {count / total:.2f} cases a second ({count} cases in {total:.1f} s, one process, one thread)\n\n"
    return head + tables.markdown(["stage", "cases", "seconds a case", "share of all", *names], body) + "\n"
