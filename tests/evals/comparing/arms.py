"""Arms of evals written by hand: scores drawn or given, and everything else as a runner would record it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.grading.response import Outcome
from evals.records import folder
from evals.records.model import Answered, EvalManifest, TaskPlan
from validate.records.arm import SPECIALIZED, StepCount, Steps
from validate.records.model import Machine

Scores = NDArray[np.floating]


@dataclass
class Task:
    """``scores`` [items, repeats]; what is special about some responses, by item and repeat; ``strata`` by item."""

    name: str
    scores: Scores
    margin: float = 0.02
    metric: str = "exact"
    changed: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict)
    strata: tuple[str, ...] = ()
    length: float = 1.0
    secret: bool = False

    def plan(self) -> TaskPlan:
        items, repeats = self.scores.shape
        return TaskPlan(
            name=self.name,
            items=items,
            repeats=repeats,
            metric=self.metric,
            margin=self.margin,
            data="made by hand",
            digest="0" * 16,
            generation={"temperature": 1.0},
            secret=self.secret,
        )

    def answers(self) -> list[Answered]:
        """Repeat by repeat. Lengths hang on item and repeat, so that both arms' are alike but for ``length``."""
        items, repeats = self.scores.shape
        return [
            Answered.model_validate(self._answer(item, repeat) | self.changed.get((item, repeat), {}))
            for repeat in range(repeats)
            for item in range(items)
        ]

    def _answer(self, item: int, repeat: int) -> dict[str, Any]:
        return {
            "task": self.name,
            "item": f"item{item}",
            "repeat": repeat,
            "stratum": self.strata[item] if self.strata else "",
            "outcome": Outcome.SCORED,
            "scores": {self.metric: float(self.scores[item, repeat])},
            "tokens": int((200 + 37 * (item % 50) + 11 * (repeat % 7)) * self.length),
            "prompt_tokens": 50 + item,
            "content": "SECRET CONTENT",
        }


def ended(outcome: Outcome, metric: str = "exact", **further: Any) -> dict[str, Any]:
    """What differs in a response that ended so."""
    return {"outcome": outcome, "scores": {metric: 0.0}, **further}


def steps(specialized: bool, *tasks: str, ran: int = 99) -> Steps:
    """``ran`` of 100 decode steps of each task specialized, or none."""
    default = StepCount(path="default", kind="decode", rows=8, q=1, reason="off", count=100 - ran if specialized else 100)
    counted = (default, StepCount(path="specialized", kind="decode", rows=8, q=1, reason="", count=ran))
    return Steps(source="by hand", by_scene=dict.fromkeys(tasks, counted if specialized else (default,)))


def manifest(name: str, *tasks: Task, **changed: Any) -> EvalManifest:
    made = EvalManifest(
        name=name,
        suite="by-hand",
        decode_backend=SPECIALIZED if name == "specialized" else "auto",
        stand_in=True,
        engine={"tensor_parallel_size": 1},
        model="m" * 16,
        tasks=tuple(task.plan() for task in tasks),
        concurrency=8,
        environment={},
        versions={"vllm": "0.33.0"},
        source="s" * 16,
        commit=None,
        dirty=None,
        machine=Machine(system="Linux", cpu="by hand", cores=2, memory_gib=8.0),
        start="2026-10-01T00:00:00Z",
        end="2026-10-01T01:00:00Z",
    )
    return made.model_copy(update=changed)


def write(path: Path, name: str, *tasks: Task, ran: int = 99, **changed: Any) -> Path:
    """The folder of an arm; ``changed``: fields of its manifest."""
    path.mkdir(parents=True)
    folder.write_manifest(path, manifest(name, *tasks, **changed))
    for task in tasks:
        folder.append(path, task.answers())
    folder.write_steps(path, steps(name == "specialized", *(task.name for task in tasks), ran=ran))
    return path
