"""Stages of which no part of vLLM's can be run here, and why."""

from validate.model.call import Call
from validate.paths.vllm.adapter import Prepared, Whole
from validate.paths.vllm.source import Source


class Absent(Whole):
    """An adapter that runs nothing."""

    step = ()

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def missing(self, call: Call, source: Source) -> str:
        """The reason."""
        return self._reason

    def prepare(self, call: Call, source: Source) -> Prepared:
        """Never called: it is always missing."""
        raise NotImplementedError
