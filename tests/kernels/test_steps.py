"""vLLM's own decode steps: every launch is what its kernel was compiled for, and one that is not is found."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import Edit
from validate.kernels import needs
from validate.paths.vllm import entries

pytestmark = pytest.mark.skipif(bool(needs.missing()), reason="the compiler is not installed")
PROFILE = """
description = "two deployments"
runs_on = "emulated"
subjects = ["emulated-default"]
tp = [16]
batches = [1, 40]
queries = [4]
seeds = 1
"""


def launched(root: Path, folder: Path) -> tuple[int, list[str]]:
    profile = folder / "two.toml"
    profile.write_text(PROFILE)
    command = [sys.executable, "-m", "validate.kernels.steps", str(profile), str(root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, done.stdout.splitlines()


def test_the_original_launches_what_it_compiled(vllm_source: Path, tmp_path: Path) -> None:
    code, lines = launched(vllm_source, tmp_path)
    assert code == 0
    (count,) = lines
    # 12 batches (BATCHES and 40) of plain decode, in deployments with drafts also 6 of whole requests; both with DCP and without.
    assert "in 60 decode steps, 0 differences" in count
    assert int(count.split()[0]) > 60 * 93 * 5


FAULTS = {
    "the consumer reads the one-shot mailbox": (
        entries.PREPARED_OPROJ,
        {"codes[1](gather, *rows[:-1], *tail, s)": "codes[1](self.box, *rows[:-1], *tail, s)"},
        "64 rows, 1 a request: OprojConsumer: operand 0: shape (16, 64, 7168), compiled for (1, 64, 7168)",
    ),
    "the gate begins a column early": (
        entries.PREPARED_MLA,
        {"to_cute(projected[:, 2112:])": "to_cute(projected[:, 2111:])"},
        "MlaValue: operand 2: shape (1, 769), compiled for (1, 768)",
    ),
    "what was accepted as a column": (
        entries.PREPARED_KDA,
        {"accepted[:rows]": "accepted[: rows + 1][:, None][:rows]"},
        "KdaSplit: operand 17: shape (1, 1), compiled for (1)",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_another_operand_is_found(name: str, edited: Edit, tmp_path: Path) -> None:
    file, replacements, difference = FAULTS[name]
    code, lines = launched(edited(file, replacements), tmp_path)
    assert code == 1
    assert any(difference in line for line in lines), lines[:5]
