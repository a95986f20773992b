"""A suite's tasks as lm-eval loads them, with their documents."""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.records.model import TaskPlan
from evals.running.asking import Question
from evals.running.suite import Asked, Suite
from evals.tasks import window as window_of
from evals.tasks.documents import Document
from validate import keywords
from validate.errors import InputError

A_TURN = 64  # tokens of a turn beside its text, at most
TASKS = Path(__file__).parents[1] / "tasks"


@dataclass(frozen=True)
class Planned:
    """A task of lm-eval's, and the record of what is asked of it."""

    task: Any
    plan: TaskPlan


def chosen(suite: Suite, keyword: str | None) -> list[Asked]:
    """The suite's tasks whose names match."""
    if keyword is None:
        return list(suite.tasks)
    found = [task for task in suite.tasks if keyword == task.name or keywords.matches(keyword, task.name)]
    if not found:
        raise InputError(f"-k '{keyword}' selects none of the tasks {', '.join(task.name for task in suite.tasks)}")
    return found


def planned(suite: Suite, keyword: str | None, data: Path | None, again: bool = False) -> list[Planned]:
    """The tasks with all documents. ``again``: with the seeds of the default path against itself.

    InputError where a data set is not to be had, or is another one than it should be.
    """
    return [_planned(task, data, again) for task in chosen(suite, keyword)]


def fitting(of: Planned, count: Callable[[Question], int], window: int) -> Planned:
    """The same without the items whose prompt and response do not fit into a window of so many tokens.

    InputError if fewer than two are left: nothing would follow from them.
    """
    documents, plan = of.task.dataset["test"], of.plan
    budget = int(plan.generation["max_gen_toks"])

    def tokens(document: Document) -> int:
        text = sum(len(turn["content"].encode()) + A_TURN for turn in document["messages"])
        if text + budget <= window:  # a token has a byte or more
            return text
        return count(question(plan.name, document, plan.generation))

    left_out = window_of.left_out(documents, tokens, window, budget)
    if not left_out:
        return of
    if plan.items - len(left_out) < 2:
        fits = "one item fits" if plan.items > len(left_out) else "no item fits"
        raise InputError(f"{plan.name}: {fits} into {window} tokens less {budget} for the response, and two are needed")
    kept = [place for place, item in enumerate(documents["item"]) if item not in left_out]
    of.task.dataset["test"] = documents.select(kept)
    more = {"items": plan.items - len(left_out), "left_out": tuple(left_out.items())}
    return Planned(of.task, plan.model_copy(update=more))


def question(task: str, document: Document, generation: Mapping[str, Any]) -> Question:
    """What is asked of the model."""
    return Question(task, document["item"], document["repeat"], document["messages"], document["seed"], generation)


def manager(metadata: dict[str, Any]) -> Any:
    """lm-eval's, of the project's tasks alone: to read lm-eval's own takes seconds."""
    from lm_eval.tasks import TaskManager

    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    return TaskManager(include_path=str(TASKS), include_defaults=False, metadata=metadata)


def _planned(asked: Asked, data: Path | None, again: bool) -> Planned:
    metadata: dict[str, Any] = {"repeats": asked.repeats, "again": again}
    metadata |= {"items": asked.items} if asked.items else {}
    metadata |= {"data": str(data)} if data else {}
    task = manager(metadata).load([asked.name])["tasks"][asked.name]
    documents = task.dataset["test"]
    said, config = json.loads(documents.info.description), task.config
    if asked.budget is not None:
        config.generation_kwargs["max_gen_toks"] = asked.budget
    plan = TaskPlan(
        name=asked.name,
        items=len(documents) // asked.repeats,
        repeats=asked.repeats,
        metric=config.metric_list[0]["metric"],
        margin=asked.margin,
        generation={name: value for name, value in config.generation_kwargs.items() if name != "until"},
        **said,
    )
    return Planned(task, plan)
