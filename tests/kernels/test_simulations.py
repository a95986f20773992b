"""The adapters over ranks of the o-projection and the MoE tail: what is around their kernels gives the emulated results.

A fault of a kernel, of vLLM's host code or of the adapter is seen. ``test_fronts`` has the MoE front's.
"""

import ast
from pathlib import Path

import pytest

from tests.support import Edit, ran
from validate.kernels import needs
from validate.paths.vllm import entries

pytestmark = pytest.mark.skipif(bool(needs.missing()), reason="the compiler is not installed")

# Inputs, TP, batch, regime, write, parity: every kind of kernel, both parities, both kinds of layer.
PROJECTED = [
    "trained/8/1/1/0/0",  # mma.sync, and the consumer that publishes to the MoE's front
    "sentinel/8/3/8/1/1",
    "cancelling/8/9/9/0/1",  # mma.sync in groups of rows
    "padded/8/15/17/0/0",  # tcgen05
    "cancelling/8/33/33/0/1",  # two-shot
    "sentinel/8/33/33/1/0",
    "trained/16/1/1/0/0",  # one of the two layers is fused
    "sentinel/16/2/2/0/1",
    "cancelling/16/5/5/1/0",
    "early/16/9/9/0/1",
    "sentinel/16/17/17/0/0",
]
# Inputs, TP, batch, rows of the layer before.
TAILS = [
    "trained/8/1/8",  # polls for its inputs
    "sentinel/8/3/3",
    "trained/8/5/16",  # published; one group of rows
    "sentinel/8/9/9",  # more: the sums are shared
    "cancelling/16/2/2",
    "sentinel/16/3/3",
    "cancelling/16/9/9",
    "sentinel/16/33/33",  # two-shot
]
BEHIND = "broken: reads what the kernel before it may not have written yet"
# By fault: what is said, or which outputs and buffers differ.
OPROJ_FAULTS = {
    "trained/8/1/1/0/0/leaves its slots": "broken: 57344 words of the mailboxes are not armed again",
    "cancelling/8/33/33/0/1/leaves the owner's slots": "broken: 236544 words of the mailboxes are not armed again",
    "cancelling/8/33/33/0/1/swaps the owners": "delta, prefix",
    "trained/8/1/1/0/0/adds the prefix twice": "prefix",
    "trained/8/1/1/0/0/leaves out the last rank": "delta, prefix",
    "trained/8/1/1/0/0/one slot on": "broken: rank 0 waits for ever: 3584 words are armed",
    "sentinel/8/3/8/1/1/publishes -0": "broken: rank 0 waits for ever: 43008 words are armed",
    "trained/8/1/1/0/0/both layers in one half": "broken: rank 0 waits for ever: 3584 words are armed",
    "trained/8/1/1/0/0/the sum onto the prefix": "delta",
    "trained/8/1/1/0/0/the prefix of no call": "delta, prefix",
    "sentinel/8/3/8/1/1/a block that is not written": "delta, prefix",
    "trained/8/1/1/0/0/the other kind of layer": "prefix",
    "trained/16/5/5/0/0/starts behind the prefix": BEHIND,
    "trained/8/1/1/0/0/arms one half": "broken: 2290176 words of the mailboxes are not armed again",
}
TAIL_FAULTS = {
    "trained/8/5/16/one third on": "out",
    "trained/8/5/16/arms a row too few": "broken: 17920 words of the tail's mailboxes are not armed again",
    "sentinel/8/9/9/arms no sums": "broken: 16128 words of the tail's mailboxes are not armed again",
    "trained/8/1/8/arms no inputs": "broken: 258112 words of the small batch's inputs are not armed again",
    "trained/8/1/8/leaves its row": "broken: 3584 words of the tail's mailboxes are not armed again",
    "trained/8/1/8/swaps the owners": "out, shared_box",
    "sentinel/8/3/3/pushes -0": "broken: rank 7 waits for ever: 1792 words are armed",
    "trained/8/1/8/leaves out the last rank": "out",
    "trained/8/1/8/another rank's columns": "out",
    "trained/8/5/16/a layer on": "broken: rank 0 waits for ever: 71680 words are armed",
    "trained/8/5/16/arms only once": "broken: 2911552 words of the tail's mailboxes are not armed again",
    "trained/8/5/16/publishes as the first rank": "broken: rank 0 waits for ever: 62720 words are armed",
    "sentinel/16/33/33/publishes to the owners in reverse": "out, latent",
    "trained/8/1/8/small inputs of the layer before": "broken: waits for ever: 64528 values of its inputs",
    "trained/8/5/16/pushes another call's rows": "out, shared_box",
    "sentinel/8/9/9/starts behind the prefix": BEHIND,
    "sentinel/8/3/3/keeps the prefix": "out",
    "sentinel/8/3/3/the rows of every rank": "out, latent",
    "trained/8/1/8/the smallest batch's ordinal": "broken: 125440 words of the tail's mailboxes are not armed again",
}
# Of vLLM's host code: file, what in whose place, module, case, and what is seen.
EDITS = {
    "sums to the other half": (
        entries.TWOSHOT,
        {"self.gather_mc + parity *": "self.gather_mc + (1 - parity) *"},
        "simulated_o_proj",
        "cancelling/8/33/33/0/1",
        "broken: rank 7 waits for ever: 118272 words are armed",
    ),
    "arms this batch's rows alone": (
        entries.TAIL,
        {"0 if ordinal else max(batches)": "0"},
        "simulated_tail",
        "trained/8/1/8",
        "broken: 125440 words of the tail's mailboxes are not armed again",
    ),
}


def summed_up(said: str) -> str:
    """What differs, or why it broke off."""
    if not said.startswith("{"):
        return said
    return ", ".join(name for name, count in ast.literal_eval(said).items() if count)


def simulated(root: Path, module: str, *cases: str) -> dict[str, str]:
    code, said = ran(module, root, *cases)
    assert code == 0, said
    pairs = (line.split(": ", 1) for line in said.splitlines())
    return {case: summed_up(found) for case, found in pairs}


@pytest.fixture(scope="module")
def o_proj(vllm_source: Path) -> dict[str, str]:
    return simulated(vllm_source, "simulated_o_proj", *PROJECTED, *OPROJ_FAULTS)


@pytest.fixture(scope="module")
def tail(vllm_source: Path) -> dict[str, str]:
    return simulated(vllm_source, "simulated_tail", *TAILS, *TAIL_FAULTS)


@pytest.mark.parametrize("case", PROJECTED)
def test_the_projection_is_the_emulated_one(case: str, o_proj: dict[str, str]) -> None:
    assert o_proj[case] == ""


@pytest.mark.parametrize("case", TAILS)
def test_the_tail_is_the_emulated_one(case: str, tail: dict[str, str]) -> None:
    assert tail[case] == ""


@pytest.mark.parametrize("fault", OPROJ_FAULTS)
def test_a_fault_of_the_projection_is_seen(fault: str, o_proj: dict[str, str]) -> None:
    assert o_proj[fault] == OPROJ_FAULTS[fault]


@pytest.mark.parametrize("fault", TAIL_FAULTS)
def test_a_fault_of_the_tail_is_seen(fault: str, tail: dict[str, str]) -> None:
    assert tail[fault] == TAIL_FAULTS[fault]


@pytest.mark.parametrize("name", EDITS)
def test_a_fault_of_vllms_host_code_is_seen(name: str, edited: Edit) -> None:
    file, replacements, module, case, seen = EDITS[name]
    assert simulated(edited(file, replacements), module, case) == {case: seen}
