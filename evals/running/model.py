"""What lm-eval takes for a model: it asks what is not recorded yet, and says what each response is worth."""

from itertools import groupby

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from evals.running.asking import Asker
from evals.running.planning import question
from evals.running.recording import Recording
from evals.tasks.task import scored


class Recorded(LM):
    """Task by task. lm-eval's own cache and log of samples are not used: they hold the text of sets that must not be published.

    ``backwards``: the last questions first, in other batches, therefore.
    """

    def __init__(self, recording: Recording, asker: Asker, backwards: bool) -> None:
        super().__init__()
        self._recording, self._asker, self._backwards = recording, asker, backwards

    def generate_until(self, requests: list[Instance]) -> list[str]:
        """The scores of all, none of the texts."""
        for task, of in groupby(requests, key=lambda request: str(request.task_name)):
            asked = list(of)
            documents = {_key(request): request.doc for request in asked}
            left = [question(task, one.doc, one.arguments[1]) for one in asked if not self._recording.has(_key(one))]
            self._recording.ask(task, left[::-1] if self._backwards else left, documents, self._asker)
        return [scored(self._recording.scores(_key(request))) for request in requests]

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        """No task asks for it."""
        raise NotImplementedError("the tasks generate")

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        """No task asks for it."""
        raise NotImplementedError("the tasks generate")


def _key(request: Instance) -> tuple[str, str, int]:
    return str(request.task_name), request.doc["item"], request.doc["repeat"]
