"""The record of an arm in the making: each response is graded when it comes and kept before anybody sees it."""

import contextlib
import hashlib
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evals.grading.response import Outcome, Response
from evals.records import folder
from evals.records.model import Answered, TaskPlan
from evals.running.asking import Account, Asker, Question, Reply
from evals.running.progress import Progress
from evals.running.watching import Watch
from evals.tasks.task import grade
from validate.equivalence import attestation
from validate.equivalence.engine import CORRUPTED, Lost, metric
from validate.equivalence.record import combined
from validate.errors import InputError
from validate.records.arm import Steps

EVERY = 10.0  # seconds between two looks at the engine's counts, which a run that is killed loses at most
Key = tuple[str, str, int]


@dataclass
class Recording:
    """``scored``: by task, item and repeat, the scores of what is recorded; ``errors`` of them are none.

    ``watch``: looks whether the arm has failed already.
    """

    there: Path
    plans: Mapping[str, TaskPlan]
    steps: Steps
    progress: Progress
    scored: dict[Key, dict[str, float]] = field(default_factory=dict)
    errors: int = 0
    watch: Watch | None = None
    _corrupted: dict[str, float] = field(default_factory=dict)
    _looked: float = -math.inf

    def has(self, key: Key) -> bool:
        """Whether there is a response."""
        return key in self.scored

    def scores(self, key: Key) -> dict[str, float]:
        """What it is worth."""
        return self.scored[key]

    def ask(self, task: str, questions: Sequence[Question], documents: Mapping[Key, Mapping[str, Any]], asker: Asker) -> None:
        """Asks what is left of a task, and counts the engine's steps meanwhile. Lost if the engine is; Stopped by ``watch``.

        What the engine says of a secret set may quote it: InputError without its words then.
        """
        if not questions:
            return
        begun = asker.account()  # of what was before
        alike(begun)
        self._corrupted = {engine: metric(account.metrics, CORRUPTED) or 0.0 for engine, account in begun.items()}
        self._looked = -math.inf

        def replied(question: Question, reply: Reply) -> None:
            # The counts first: what is recorded is not asked again, and would lack the steps that prove it.
            if time.monotonic() - self._looked > EVERY:
                self._look(task, asker)
            self._keep(answered(self.plans[task], documents[question.key], question, reply))

        try:
            asker.ask(questions, replied)
        except BaseException as error:  # an engine that died may still say what it counted
            with contextlib.suppress(Exception):
                self._look(task, asker)
            if self.plans[task].secret and isinstance(error, Lost | InputError):
                raise InputError(
                    f"the engine is lost or refuses ({_kind(error)}); its own log may say why, in {task}'s text"
                ) from None
            raise
        self._look(task, asker)

    def _keep(self, one: Answered) -> None:
        folder.append(self.there, [one])
        self.scored[one.key] = dict(one.scores)
        self.errors += one.outcome is Outcome.ERROR
        self.progress.add(one.tokens)
        if self.watch is not None:
            self.watch.see(one)

    def _look(self, task: str, asker: Asker) -> None:
        """Adds what the engines counted since the last look; a server that was started anew in between begins at 0."""
        accounts = asker.account()
        alike(accounts)
        for engine, account in accounts.items():
            now, before = metric(account.metrics, CORRUPTED), self._corrupted.get(engine, 0.0)
            new = None if now is None else int(now - before if now >= before else now)
            self._corrupted[engine] = now or 0.0
            self.steps = combined(self.steps, task, attestation.counted(account.steps), new)
        folder.write_steps(self.there, self.steps)
        self._looked = time.monotonic()


def alike(accounts: Mapping[str, Account]) -> None:
    """InputError where some of an arm's engines count steps or NaN logits and others do not: they would vouch for these."""
    for what, counts in (
        ("steps", {name: attestation.counted(one.steps).steps is not None for name, one in accounts.items()}),
        ("requests with NaN logits", {name: metric(one.metrics, CORRUPTED) is not None for name, one in accounts.items()}),
    ):
        if len(set(counts.values())) > 1:
            lacking = ", ".join(name for name, does in counts.items() if not does)
            raise InputError(f"{lacking} counts no {what}, and the arm's other engines do: start them alike")


def _kind(error: Exception) -> str:
    """Of an error, without its words."""
    status = getattr(error, "status", None)
    return type(error).__name__ if status is None else f"HTTP {status}"


def answered(plan: TaskPlan, document: Mapping[str, Any], question: Question, reply: Reply) -> Answered:
    """The record of a response. Of a secret set's text it has a digest."""
    response = Response(reply.content, reply.reasoning, reply.finish, reply.error)
    worth = grade(response, dict(document))
    words = f"{reply.error}: {reply.detail}" if reply.error and reply.detail and not plan.secret else reply.error
    return Answered(
        task=plan.name,
        item=question.item,
        repeat=question.repeat,
        stratum=document["stratum"],
        outcome=worth.outcome,
        scores=dict(worth.scores),
        answer=None if worth.answer == reply.content else worth.answer,  # of MRCR all of the content
        reasoning_only=worth.reasoning_only,
        finish=reply.finish,
        error=words,
        content=None if plan.secret else reply.content,
        reasoning=None if plan.secret else reply.reasoning,
        digest=hashlib.sha256((reply.content or "").encode(errors="replace")).hexdigest()[:16],
        permutation=tuple(document["permutation"]),
        length=document["length"],
        prompt_tokens=reply.prompt_tokens,
        tokens=reply.tokens,
        loop=reply.loop,
        seconds=reply.seconds,
        attempts=reply.attempts,
    )
