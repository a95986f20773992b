"""The adapters of one GPU pass the suite around kernels that are played, at each size class; mistakes do not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels.simulated_faults import FAULTS
from tests.support import ROOT
from validate.kernels import needs

compiler = pytest.mark.skipif(bool(needs.missing()), reason="the compiler is not installed")


def sizes(adapter: str, names: str, *cases: str) -> list[str]:
    """``INPUTS NUMBER ...`` as ``simulated_stages`` takes them."""
    found = []
    for inputs, *numbers in map(str.split, cases):
        pairs = ",".join(f"{name}={number}" for name, number in zip(names.split(), numbers, strict=True))
        found.append(f"{adapter}/{inputs}/{pairs}")
    return found


PROJECTION = sizes(
    "input_projection/SpecializedProjection",
    "tp batch regime mla",
    "trained 16 1 1 1",
    "padded 16 1 2 1",
    "padded 16 12 16 1",
    "padded 8 1 2 0",
    "padded 8 47 64 0",
)
DENSE = sizes(
    "dense_mlp/SpecializedDenseMlp", "tp batch regime", "saturated 16 3 3", "padded 16 5 8", "padded 16 12 16", "trained 8 1 1"
)
SHARED = sizes(
    "shared_experts/SpecializedSharedExperts",
    "tp batch regime",
    "padded 16 7 8",
    "padded 16 17 32",
    "padded 16 47 48",
    "padded 8 2 3",
    "padded 8 5 16",
    "padded 8 47 48",
)
SMALL = sizes("shared_experts/SmallSharedExperts", "tp batch regime", "trained 8 1 1", "saturated 8 1 1")
FUSED = sizes(
    "attn_res/FusedAttnRes", "batch blocks add write final slots aux fused", "trained 3 4 1 -1 0 0 0 1", "faint 16 8 0 -1 0 0 0 1"
)
RESIDUAL = sizes(
    "attn_res/SpecializedAttnRes",
    "batch blocks add write final slots aux fused",
    "trained 2 0 0 0 0 0 0 0",
    "trained 2 1 1 -1 0 0 1 0",
    "trained 3 4 1 4 0 1 0 0",
    "rotating 3 3 1 -1 0 8 0 0",
    "sentinel 4 2 1 2 0 8 1 0",
    "trained 4 8 1 -1 1 1 1 0",
)
LATENT = sizes(
    "mla/WholeMla",
    "tp batch q regime dcp interleave block",
    "trained 16 1 1 1 1 1 64",
    "padded 16 4 1 8 1 1 64",
    "scaled 16 8 4 8 1 1 64",
    "poisoned 16 16 1 32 1 1 64",
    "padded 8 16 8 16 1 1 64",
    "boundary 8 2 1 2 1 1 32",
)
SHARED_CONTEXT = sizes(
    "mla/SharedMla",
    "tp batch q regime dcp interleave block",
    "padded 8 4 1 4 8 1 64",
    "boundary 8 8 4 8 8 4 64",
    "short 8 4 4 4 8 1 64",
    "trained 16 2 1 2 16 1 64",
)
CASES = [*PROJECTION, *DENSE, *SHARED, *SMALL, *FUSED, *RESIDUAL, *LATENT, *SHARED_CONTEXT]
# What the suite must say of each mistake, and where.
PLANTED = {
    "skinny result left where it is": (PROJECTION[0], "projected complete"),
    "input read when prepared": (PROJECTION[0], "projected repeatable"),
    "weight's rows as its pitch": (PROJECTION[2], "projected rounding"),
    "padded rows for live ones": (DENSE[1], "partial complete"),
    "bounds swapped": (DENSE[0], "partial rounding"),
    "unpadded down projection": (DENSE[1], "partial rounding"),
    "padding before the weight": (DENSE[1], "partial rounding"),
    "live rows one late": (SHARED[1], "partial rounding"),
    "another parity": (SHARED[1], "partial complete"),
    "owners in another order": (SHARED[1], "partial rounding"),
    "scale for a bound": (SHARED[2], "partial rounding"),
    "half the capacity": (SHARED[1], "partial complete"),
    "gate for up": (SHARED[1], "partial rounding"),
    "gate and up to the other half": (SMALL[0], "kernel finished"),
    "another third": (SMALL[0], "partial complete"),
    "the table's bounds swapped": (SMALL[1], "partial rounding"),
    "gamma for the query": (FUSED[0], "out rounding"),
    "previous prefix": (FUSED[0], "prefix exact"),
    "a slot left out": (FUSED[0], "prefix exact"),
    "a mailbox not armed": (FUSED[0], "mailbox complete"),
    "a copy of the prefix": (RESIDUAL[1], "prefix exact"),
    "a row too many": (RESIDUAL[1], "out rounding"),
    "scale for its inverse": (LATENT[2], "query rounding"),
    "inverse for a scale": (LATENT[2], "out rounding"),
    "scales without the key's": (LATENT[2], "out rounding"),
    "lengths of requests as rows": (LATENT[2], "refused"),
    "padded rows at slot 0": (LATENT[1], "cache complete"),
    "gate columns shifted": (LATENT[0], "out rounding"),
    "gate from the latents": (LATENT[0], "refused"),
    "a short table": (LATENT[5], "refused"),
    "table of the first step": (LATENT[0], "out repeatable"),
    "a row in another page": (LATENT[0], "cache complete"),
    "keys one too many": (LATENT[2], "out rounding"),
    "old keys": (LATENT[0], "out rounding"),
    "the first rank's gate": (SHARED_CONTEXT[2], "out rounding"),
    "another interleave": (SHARED_CONTEXT[1], "out rounding"),
    "positions of the first rank": (SHARED_CONTEXT[2], "out rounding"),
    "a shard's length for the whole": (SHARED_CONTEXT[2], "out rounding"),
    "queries to the other parity": (SHARED_CONTEXT[2], "kernel finished"),
    "sums not armed": (SHARED_CONTEXT[2], "out complete"),
    "heads of the next owner": (SHARED_CONTEXT[1], "out rounding"),
}


@pytest.fixture(scope="module")
def judged(vllm_source: Path) -> dict[str, str]:
    planted = [f"{case}/{fault}" for fault, (case, _) in PLANTED.items()]
    command = [sys.executable, "-m", "tests.kernels.simulated_stages", str(vllm_source), *CASES, *planted]
    # Freed memory is kept: a third of the time would go into asking for it again.
    environment = {**os.environ, "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


@compiler
@pytest.mark.parametrize("case", CASES)
def test_an_adapter_passes_the_suite(case: str, judged: dict[str, str]) -> None:
    assert judged[case] == "PASS"


@compiler
@pytest.mark.parametrize("fault", PLANTED)
def test_a_mistake_does_not(fault: str, judged: dict[str, str]) -> None:
    case, said = PLANTED[fault]
    assert said in judged[f"{case}/{fault}"]


def test_every_mistake_is_planted() -> None:
    assert PLANTED.keys() == FAULTS.keys()
