"""``vllm-default``: vLLM 0.33.0's own Triton kernels of the default path, interpreted on a CPU.

Nobody here wrote them. Where they pass, the reference and its rounding points are those of vLLM.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import numpy as np

from validate.model.call import Call
from validate.paths.vllm import loading
from validate.paths.vllm.attn_res import VllmAttnRes
from validate.paths.vllm.kda import VllmKda


class Stage(Protocol):
    """A stage's adapter."""

    def missing(self, call: Call) -> str | None:
        """Why it cannot run this call; None if it can."""

    def __call__(self, call: Call, kernels: loading.Kernels) -> None:
        """Runs it."""


STAGES: Mapping[str, Stage] = {"kda": VllmKda(), "attn_res": VllmAttnRes()}


class VllmDefault:
    """Runs the stages whose default kernels are written in Triton. ``source`` is the folder that holds ``vllm/``."""

    name = "vllm-default"
    path = "default"

    def __init__(self, source: Path) -> None:
        self._kernels = loading.load(source.resolve())

    def missing(self, call: Call) -> str | None:
        """Stages whose kernels are not Triton's, and calls that take the interpreter too long."""
        if call.stage not in STAGES:
            return "its default kernels are compiled, or not of one stage alone"
        return STAGES[call.stage].missing(call)

    def run(self, call: Call) -> None:
        """Runs the stage. What overflows does so silently, as on a GPU."""
        with np.errstate(all="ignore"):
            STAGES[call.stage](call, self._kernels)
