"""One thing that the pre-flight found."""

from dataclasses import dataclass
from typing import Literal

NVIDIA = "vllm/models/kimi_k3/nvidia"
RUNTIME = f"{NVIDIA}/specialized_decode/runtime/__init__.py"
CUTEDSL = f"{NVIDIA}/specialized_decode/cutedsl"


@dataclass(frozen=True)
class Finding:
    """``refuse``: vLLM will not start it, or the path does not support it; ``warn``: it runs, but know this.

    ``name``: ``vLLM`` where vLLM itself refuses it, ``G1`` to ``G6`` where nobody does, ``A/B`` where it spoils a
    comparison of the paths. ``where``: the file of vLLM 0.33.0 that refuses it or relies on it.
    """

    severity: Literal["refuse", "warn"]
    name: str
    what: str
    do: str
    where: str

    def __str__(self) -> str:
        return f"{self.severity} {self.name}: {self.what}; {self.do} ({self.where})"
