"""Whether the emulation predicts the kernels: errors of vLLM's subjects beside those of the emulated ones on the same inputs."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from validate.records.model import Line
from validate.report import tables

# As far as an emulation may be off and still stand for the kernel: it moves an error by less than a rounding point would
# (one more rounding of equal size adds 41 %, half of one 12 %).
NEAR = 0.15

# Errors below this are those of fp32 itself: a few roundings of 2**-24, other instructions for exp and division.
FP32_NOISE = 2.0**-21


@dataclass
class Pair:
    """One tensor of one stage and path. ``ratios``: error of vLLM's kernel over that of the emulation, by case.

    ``noise`` counts the cases in which both errors are fp32's own, or zero, and say nothing.
    """

    stage: str
    path: str
    tensor: str
    ratios: dict[str, float] = field(default_factory=dict)
    noise: int = 0

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
            if max(by_kind.values()) < FP32_NOISE:
                pair.noise += 1
            else:
                pair.ratios[case] = max(by_kind["vllm"], FP32_NOISE) / max(by_kind["emulated"], FP32_NOISE)
    return list(found.values())


def render(found: list[Pair]) -> str:
    """A Markdown table."""
    header = [
        "stage",
        "path",
        "tensor",
        "cases",
        "below fp32 noise",
        "smallest",
        "median",
        "largest",
        f"off by more than {NEAR:.0%}",
    ]
    body = []
    for pair in found:
        ratios = sorted(pair.ratios.values())
        figures = [f"{ratios[n]:.3f}" for n in (0, len(ratios) // 2, -1)] if ratios else ["", "", ""]
        body.append(
            [pair.stage, pair.path, pair.tensor, len(ratios) + pair.noise, pair.noise, *figures, ", ".join(pair.far) or "none"]
        )
    return tables.markdown(header, body)
