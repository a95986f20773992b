"""What the default path's linear layers launch on a GPU, held against what the kernels were compiled for."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT, Edit
from validate.kernels import needs
from validate.paths.vllm import entries

pytestmark = pytest.mark.skipif(bool(needs.missing()), reason="the compiler is not installed")
SPLIT = {"CuteSkinnyGemm", "_KdaSkinnyNGemm", "_KdaSkinnyKGemm"}


def launched(root: Path, arch: str, tp: int, keyword: str) -> dict[str, tuple[set[str], str]]:
    """By case, the kernels and what differs."""
    command = [sys.executable, "-m", "tests.paths.default_launches", str(root), arch, str(tp), keyword]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found = {}
    for line in done.stdout.splitlines():
        kernels, _, differences = line.partition(" |")
        case, *names = kernels.split()
        found[case] = set(names), differences.strip()
    return found


# vLLM's tables (low_latency_gemm.py): where they name a kernel that bare files have, and where not.
CHOICES = [
    ("sm_90a", 8, "input_projection/ and batch2-regime2-mla0", SPLIT),
    ("sm_90a", 16, "input_projection/ and batch1-regime1-mla", set()),  # in cuBLAS but for MLA's latents
    ("sm_103a", 16, "input_projection/ and batch1-regime1-mla0", {"CuteSkinnyGemm"}),
    ("sm_90a", 8, "latent_down/ and batch3-regime3", {"CuteSkinnyGemm"}),
    ("sm_103a", 8, "latent_down/ and batch3-regime3", set()),
    ("sm_103a", 8, "o_proj/ and batch1-regime1-", {"CuteSkinnyGemm"}),
]


@pytest.mark.parametrize(("arch", "tp", "keyword", "kernels"), CHOICES)
def test_the_kernels_are_those_of_vllms_tables(vllm_source: Path, arch: str, tp: int, keyword: str, kernels: set[str]) -> None:
    found = launched(vllm_source, arch, tp, keyword)
    assert found
    for case, (names, differences) in found.items():
        latents = {"CuteSkinnyGemm"} if "-mla1" in case else set()
        assert names == kernels | latents, case
        assert differences == "", case


def test_a_packed_row_for_its_part_is_found(edited: Edit) -> None:
    file = f"{entries.NVIDIA}/ops/cute_dsl/kda_skinny_gemm.py"
    root = edited(file, {"packed_fab[:, :_FB_K]": "packed_fab"})
    ((_, differences),) = launched(root, "sm_90a", 8, "input_projection/ and batch2-regime2-mla0 and trained").values()
    assert "shape (2, 144), compiled for (2, 128)" in differences
