"""Whether the emulation predicts the kernels: errors of vLLM's subjects beside those of the emulated ones on the same inputs."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from validate.records.model import Line
from validate.report import tables

# As far as an emulation may be off and still stand for the kernel: it moves an error by less than a rounding point would
# (one more rounding of equal size adds 41 %, half of one 12 %).
NEAR = 0.15


@dataclass
class Pair:
    """One tensor of one stage and path. ``ratios``: error of vLLM's kernel over that of the emulation, by case."""

    stage: str
    path: str
    tensor: str
    ratios: dict[str, float] = field(default_factory=dict)

    @property
    def far(self) -> list[str]:
        """The cases in which the two differ by more than ``NEAR``."""
        return [case for case, ratio in self.ratios.items() if not 1 / (1 + NEAR) <= ratio <= 1 + NEAR]


def pairs(lines: Iterable[Line]) -> list[Pair]:
    """Every tensor that both a kernel and its emulation computed."""
    errors: dict[tuple[str, str, str, str], dict[str, float]] = {}
    for line in lines:
        kind, _, path = line.subject.partition("-")
        for m in line.measurements:
            if m.error is not None:
                errors.setdefault((line.stage, path, m.tensor, line.case), {})[kind] = m.error
    found: dict[tuple[str, str, str], Pair] = {}
    for (stage, path, tensor, case), by_kind in errors.items():
        if by_kind.keys() >= {"vllm", "emulated"}:
            pair = found.setdefault((stage, path, tensor), Pair(stage, path, tensor))
            pair.ratios[case] = _ratio(by_kind["vllm"], by_kind["emulated"])
    return list(found.values())


def render(found: list[Pair]) -> str:
    """A Markdown table."""
    header = ["stage", "path", "tensor", "cases", "smallest", "median", "largest", f"off by more than {NEAR:.0%}"]
    body = []
    for pair in found:
        ratios = sorted(pair.ratios.values())
        figures = [f"{ratios[n]:.3f}" for n in (0, len(ratios) // 2, -1)]
        body.append([pair.stage, pair.path, pair.tensor, len(ratios), *figures, ", ".join(pair.far) or "none"])
    return tables.markdown(header, body)


def _ratio(kernel: float, emulation: float) -> float:
    if kernel == emulation:
        return 1.0
    return kernel / emulation if emulation > 0 else math.inf
