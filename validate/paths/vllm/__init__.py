"""``vllm-default``: vLLM 0.33.0's own Triton kernels of the default path, interpreted on a CPU.

It is independent of what this project wrote: where it passes, reference and rounding points are vLLM's.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from validate.model.call import Call
from validate.paths.vllm import kda, loading


class Stage(NamedTuple):
    """How a stage is run, and the work of a call: thread blocks times tokens, a few milliseconds each."""

    run: Callable[[loading.Kernels, Call], None]
    units: Callable[[Call], int]


STAGES = {"kda": Stage(kda.run, kda.units)}
MOST_UNITS = 800  # some seconds


class VllmDefault:
    """Runs the stages whose kernels are written in Triton. ``source`` is the folder that holds ``vllm/``."""

    name = "vllm-default"
    path = "default"

    def __init__(self, source: Path) -> None:
        self._kernels = loading.load(source.resolve())

    def missing(self, call: Call) -> str | None:
        """Stages without Triton kernels, and calls that take the interpreter too long."""
        if call.stage not in STAGES:
            return "vLLM runs it by compiled kernels"
        units = STAGES[call.stage].units(call)
        return f"too large to interpret: {units} thread blocks, of at most {MOST_UNITS}" if units > MOST_UNITS else None

    def run(self, call: Call) -> None:
        """Runs the stage."""
        STAGES[call.stage].run(self._kernels, call)
