"""The experts' weights through the TMA maps that vLLM encodes for them, and with a mistake in either."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT, Edit
from validate.kernels import needs
from validate.paths.vllm import entries

pytestmark = pytest.mark.skipif(bool(needs.missing()), reason="the compiler is not installed")


def read(root: Path, tp: int, mistake: str = "") -> str:
    run = f"{mistake}\nfrom tests.kernels import boxes\nboxes.main({str(root)!r}, {tp})"
    done = subprocess.run([sys.executable, "-c", run], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(("tp", "maps"), [(8, 6), (16, 2)])
def test_every_box_holds_the_rows_that_the_kernels_take_it_for(tp: int, maps: int, vllm_source: Path) -> None:
    assert read(vllm_source, tp) == f"{maps} maps, 0 boxes wrong"


def test_rows_that_are_not_shuffled_are_seen(vllm_source: Path) -> None:
    """Two experts of 3 tiles by 28 chunks, and of 28 columns' tiles."""
    mistake = "from validate.paths.vllm import expert_weights\nexpert_weights.shuffled = lambda rows: rows"
    assert read(vllm_source, 16, mistake) == f"2 maps, {2 * (3 * 28 + 28)} boxes wrong"


def test_a_map_of_other_strides_is_seen(edited: Edit) -> None:
    assert read(edited(entries.EXPERTS, {"(128, 2, 32)": "(128, 2, 64)"}), 16) == f"2 maps, {2 * 28} boxes wrong"
