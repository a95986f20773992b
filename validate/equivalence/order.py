"""When each request of a scene is submitted, in process and against servers alike."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from validate.equivalence.prompts import Prompts
from validate.equivalence.scenes import Request, Scene

COMPANION = "companion"
OTHER = 2**30  # added to seeds
_COMPANION_PROMPT = 13  # tokens; no length that another request is likely to have


def again(scene: Scene, prompts: Prompts) -> Scene:
    """The scene as ``default-again`` runs it: every request unchanged, its neighbours other.

    The requests of each wave come in reverse order, and each is submitted when the one before has its first token, where
    ``default`` submits them together. In each wave a companion, which is not recorded, is submitted first and decodes as long
    as the longest of them: a request that was alone has a neighbour, and a batch another size. Seeds are others: with the same
    ones samples would be copies wherever the engine rounds alike, and say nothing of what sampling does.
    """
    made: list[Request] = []
    for wave in sorted({request.wave for request in scene.requests}):
        members = [request for request in scene.requests if request.wave == wave]
        longest = max(request.tokens for request in members)
        name = f"{COMPANION}-{wave}"
        companion = Request(name, prompts(f"{scene.name}/{name}", _COMPANION_PROMPT), longest, wave=wave)
        made += [companion, *(replace(r, seed=None if r.seed is None else r.seed + OTHER) for r in reversed(members))]
    return replace(scene, requests=tuple(made))


class Order:
    """Says what is due. ``one_by_one``: each request waits for the first token of the one before.

    ``progress`` counts the decoded tokens of each request that was submitted; ``ended`` names those that are through.
    """

    def __init__(self, requests: Iterable[Request], *, one_by_one: bool, preempt_after: int | None = None) -> None:
        self._waiting = list(requests)
        self._one_by_one, self._preempt_after = one_by_one, preempt_after
        self._submitted: list[Request] = []

    def due(self, progress: Mapping[str, int], ended: set[str]) -> list[Request]:
        """The requests to submit now, in order; they count as submitted."""
        due = []
        while self._waiting and self._is_due(self._waiting[0], progress, ended):
            due.append(self._waiting.pop(0))
            self._submitted.append(due[-1])
        return due

    def preempt(self, progress: Mapping[str, int]) -> bool:
        """Whether all running requests are to be preempted now; True once."""
        if self._preempt_after is None or not self._submitted:
            return False
        if progress.get(self._submitted[0].name, 0) < self._preempt_after:
            return False
        self._preempt_after = None
        return True

    def over(self, ended: set[str]) -> bool:
        """Whether all requests have ended."""
        return not self._waiting and all(request.name in ended for request in self._submitted)

    def _is_due(self, request: Request, progress: Mapping[str, int], ended: set[str]) -> bool:
        if any(other.wave < request.wave and other.name not in ended for other in self._submitted):
            return False
        mates = [other for other in self._submitted if other.wave == request.wave]
        if not mates:
            return True
        if self._one_by_one:
            return mates[-1].name in ended or progress.get(mates[-1].name, 0) > 0
        return mates[0].name in ended or progress.get(mates[0].name, 0) >= request.after
