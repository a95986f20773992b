"""The emulated subjects' errors are those that vLLM's kernels had on an H200, on the same inputs, within 15 %."""

from pathlib import Path

import pytest

from validate.numerics import judge
from validate.numerics.case import Case
from validate.numerics.test_stages import line_of
from validate.paths.emulated import Emulated
from validate.records import folder
from validate.records.model import Line
from validate.report.agreement import FP32_NOISE, pairs

RECORD = Path(__file__).parents[2] / "golden" / "hopper"
LINES = folder.read_lines(RECORD)
EACH = 2  # cases of a stage and path


def small() -> list[Line]:
    """The first few of one or two rows whose error is not all decided by single values (o_proj's prefix, if restarted)."""
    found: dict[tuple[str, str], list[Line]] = {}
    for line in LINES:
        few = line.sizes["batch"] <= 2 and not line.sizes.get("write", -1) > 0
        chosen = found.setdefault((line.stage, line.subject), [])
        if few and len(chosen) < EACH and any(m.error is not None and m.error > FP32_NOISE for m in line.measurements):
            chosen.append(line)
    return [line for chosen in found.values() for line in chosen]


def test_the_record_is_of_the_kernels_and_passed() -> None:
    assert folder.read_manifest(RECORD).verdict == "PASS"
    assert {line.subject for line in LINES} == {"vllm-default", "vllm-specialized"}
    assert all(line.verdict == "PASS" for line in LINES if line.judged)
    assert sum(line.judged for line in LINES) > 1100


@pytest.mark.parametrize("kernel", small(), ids=lambda line: f"{line.subject} {line.case}")
def test_the_emulation_predicts_the_kernel(kernel: Line) -> None:
    case = Case(kernel.stage, kernel.sizes, kernel.inputs, kernel.seed)
    emulated = [Emulated("default"), Emulated(kernel.subject.removeprefix("vllm-"))]
    own = [line_of(case, judgement) for judgement in judge.judge(case, emulated)][-1]
    found = pairs([kernel, own])
    assert found
    assert {pair.tensor: pair.ratios[case.id] for pair in found if pair.far} == {}
