"""The kernel that computes the router's rows beside the shared experts, compiled as its adapter has it on one GPU.

It must be vLLM's in all but two comparisons: which rows are logits, and from which on they are the latent's.
"""

import difflib
import subprocess
import sys
from pathlib import Path

import pytest

from validate.kernels import needs
from validate.paths.vllm import shared_experts

pytestmark = pytest.mark.skipif(bool(needs.missing()), reason="the compiler is not installed")

COMPILE = """
import os, sys
from pathlib import Path
os.environ |= {"CUTE_DSL_ARCH": "sm_103a", "CUTE_DSL_KEEP_PTX": "1", "CUTE_DSL_DUMP_DIR": sys.argv[2]}
from validate.kernels import driverless
from validate.paths.vllm import entries, shared_experts, source
vllm = source.opened(Path(sys.argv[1]))
driverless.prepare(vllm, "sm_103a")
compile_ = entries.imported(vllm, entries.SHARED, "compile_shared")
rows = 224 + 64  # of TP 16: 56 of the router, padded, and the latent's
own = (rows, 64, 56, shared_experts.ROW)
for name, front in (("own", own), ("here", shared_experts.unpublished(rows))):
    Path(sys.argv[2], name).write_text(compile_(16, 48, None, True, front).__ptx__)
"""


def test_only_the_stores_conditions_differ(vllm_source: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", COMPILE, str(vllm_source), str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    texts = [(tmp_path / name).read_text().splitlines() for name in ("own", "here")]
    lines = [
        line for line in difflib.unified_diff(*texts, n=0, lineterm="") if line[0] in "+-" and line[:3] not in ("+++", "---")
    ]
    words = [line.split() for line in lines]
    assert len(words) == 4, lines
    assert [(w[0], w[1], w[-1]) for w in words] == [
        ("-", "setp.gt.s32", "55;"),
        ("+", "setp.gt.s32", "-1;"),
        ("-", "add.s32", "-64;"),
        ("+", "add.s32", f"{-shared_experts.BEYOND};"),
    ]
    assert any("multimem.st" in line for line in texts[0]), "what is not reached is still compiled"
