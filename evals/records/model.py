"""What the record of an arm of evals holds: what was asked of which engine, and what each response is worth.

A folder: ``manifest.json`` (``EvalManifest``), ``responses.jsonl`` (an ``Answered`` a line, as requests end) and ``steps.json``
(``validate.records.arm.Steps``, by task). Arms are recorded apart and compared from their records.
"""

from typing import Any

from evals.grading.response import Outcome
from validate.records.arm import EngineManifest
from validate.records.model import Record


class Answered(Record):
    """One response, graded when it came.

    ``task``, ``item`` and ``repeat`` pair it with the other arm's. ``stratum``: what results are grouped by. ``scores`` are by
    metric, the task's primary one first. ``content`` and ``reasoning`` are None for a secret set, whose text leaves nothing but
    ``digest``, the first 16 hex digits of the content's SHA-256. ``permutation``: of GPQA's options. ``length``: an MRCR
    item's tokens by the tokenizer that its lengths are made by (evals/tasks/lengths.py), 0 if not known; ``prompt_tokens`` are by
    the model's, as the server counts them. ``tokens`` were generated; ``loop``: the response ends in one. ``seconds`` and
    ``attempts``: of the request, retries included.
    """

    task: str
    item: str
    repeat: int
    stratum: str = ""
    outcome: Outcome
    scores: dict[str, float]
    answer: str | None = None
    reasoning_only: bool = False
    finish: str | None = None
    error: str | None = None
    content: str | None = None
    reasoning: str | None = None
    digest: str = ""
    permutation: tuple[int, ...] = ()
    length: int = 0
    prompt_tokens: int = 0
    tokens: int = 0
    loop: bool = False
    seconds: float = 0.0
    attempts: int = 1

    @property
    def key(self) -> tuple[str, str, int]:
        """What pairs the same request of two arms."""
        return self.task, self.item, self.repeat


class TaskPlan(Record):
    """What was asked of one task: ``items`` times ``repeats`` responses.

    ``metric``: the primary one, which the verdict is of, with its ``margin`` of non-inferiority. ``data`` says what the rows are
    and ``digest`` is of all of them together. ``generation``: sampling and chat template arguments. ``secret``: the set's text
    is in no record. ``left_out``: further items of the set, not asked because prompt and budget exceed the window, and their
    prompts' tokens by the model's tokenizer, as (item, tokens).
    """

    name: str
    items: int
    repeats: int
    metric: str
    margin: float
    data: str
    digest: str
    generation: dict[str, Any]
    secret: bool = False
    left_out: tuple[tuple[str, int], ...] = ()


class EvalManifest(EngineManifest):
    """Of evals. ``suite``: as it was named. ``minimum`` is asked of every task. ``concurrency``: requests at once, at most."""

    suite: str
    tasks: tuple[TaskPlan, ...]
    concurrency: int

    @property
    def planned(self) -> int:
        """Responses of all tasks."""
        return sum(task.items * task.repeats for task in self.tasks)
