"""The adapters over ranks of the o-projection and of the MoE tail, played on a CPU: around their kernels they give the
emulated results, and leave the mailboxes as the judge wants them.

A fault of a kernel, of vLLM's host code or of the adapter is seen. ``test_fronts`` does the same for the MoE's front.
"""

import ast
import subprocess
import sys
from collections import ChainMap
from pathlib import Path

import pytest

from tests.support import ROOT, Edit
from validate.kernels import driverless
from validate.paths.vllm import entries

pytestmark = pytest.mark.skipif(bool(driverless.missing()), reason="the compiler is not installed")


def ran(module: str, *arguments: object) -> dict[str, str]:
    """What is said of each case."""
    command = [sys.executable, "-m", f"tests.kernels.{module}", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


# Inputs, TP, batch, regime, write, parity: every kernel at both parities, in both kinds of layer.
PROJECTED = [
    "trained/8/1/1/0/0",  # mma.sync, and the consumer that publishes to the MoE's front
    "sentinel/8/3/8/1/1",
    "cancelling/8/9/9/0/1",  # mma.sync in groups of rows
    "padded/8/15/17/0/0",  # tcgen05
    "cancelling/8/33/33/0/1",  # two-shot
    "sentinel/8/33/33/1/0",
    "trained/16/1/1/0/0",  # the layer of the call's parity is fused, the other is not
    "sentinel/16/2/2/0/1",
    "cancelling/16/5/5/1/0",
    "early/16/9/9/0/1",
    "sentinel/16/17/17/0/0",
]
# Inputs, TP, batch, rows of the layer before.
TAILS = [
    "trained/8/1/8",  # polls for its inputs
    "sentinel/8/3/3",
    "trained/8/5/16",  # published; eight rows are one group
    "sentinel/8/9/9",  # tcgen05, sums shared
    "cancelling/16/2/2",
    "sentinel/16/3/3",
    "cancelling/16/9/9",
    "sentinel/16/33/33",  # two-shot
]
OPROJ_FAULTS = {
    "trained/8/1/1/0/0/leaves its slots": "",
    "cancelling/8/33/33/0/1/leaves the owner's slots": "",
    "cancelling/8/33/33/0/1/swaps the owners": "",
    "trained/8/1/1/0/0/adds the prefix twice": "",
    "trained/8/1/1/0/0/leaves out the last rank": "",
    "trained/8/1/1/0/0/one slot on": "",
    "sentinel/8/3/8/1/1/publishes -0": "",
    "trained/8/1/1/0/0/both layers in one half": "",
    "trained/8/1/1/0/0/the sum onto the prefix": "",
    "trained/8/1/1/0/0/the prefix of no call": "",
    "sentinel/8/3/8/1/1/a block that is not written": "",
    "trained/8/1/1/0/0/the other kind of layer": "",
    "trained/8/1/1/0/0/arms one half": "",
}
TAIL_FAULTS = {
    "trained/8/5/16/one third on": "",
    "trained/8/5/16/arms a row too few": "",
    "sentinel/8/9/9/arms no sums": "",
    "trained/8/1/8/arms no inputs": "",
    "trained/8/1/8/leaves its row": "",
    "trained/8/1/8/swaps the owners": "",
    "sentinel/8/3/3/pushes -0": "",
    "trained/8/1/8/leaves out the last rank": "",
    "trained/8/1/8/another rank's columns": "",
    "trained/8/5/16/a layer on": "",
    "trained/8/5/16/arms only once": "",
    "trained/8/5/16/publishes as the first rank": "",
    "sentinel/16/33/33/publishes to the owners in reverse": "",
    "trained/8/1/8/small inputs of the layer before": "",
    "trained/8/5/16/pushes another call's rows": "",
    "sentinel/8/3/3/keeps the prefix": "",
    "sentinel/8/3/3/the rows of every rank": "",
    "trained/8/1/8/the smallest batch's ordinal": "",
}
