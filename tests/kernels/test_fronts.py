"""The MoE front's adapters: their kernels are a deployment's, and what is around the kernels gives the emulated results.

A fault of vLLM's host code, of a kernel or of the order of things is seen.
"""

import re
from pathlib import Path

import pytest
import torch

from tests.support import Edit, ran
from validate.kernels import needs
from validate.paths import Broken
from validate.paths.emulated.mailbox import SENTINEL
from validate.paths.vllm import entries, front
from validate.paths.vllm.mailboxes import check_armed

compiler = pytest.mark.skipif(bool(needs.missing()), reason="the compiler is not installed")


ROUTED = ["router/zeros/8/1/1", "router/trained/16/1/2", "router/trained/8/3/3", "router/trained/16/33/64"]
PROJECTED = ["latent_down/trained/8/1/1", "latent_down/trained/16/1/2", "latent_down/trained/16/9/16"]
FAULTS = {
    "latent_down/trained/8/3/3/keeps the mailbox": "broken: 8064 words of the front's mailbox are not armed again",
    "latent_down/trained/8/1/1/keeps the other row": "broken: 14336 words of the other parity's row are not armed again",
    "latent_down/trained/8/1/1/leaves the hint": "broken: 1 words of the other parity's hint are not armed again",
    "latent_down/trained/16/1/1/keeps the placement": "broken: 3 words of the other parity's placement are not armed again",
    "latent_down/trained/16/1/1/reads the other parity": "{'out': 114688}",
    "latent_down/trained/16/1/1/one shard late": "broken: 112 words of the latent have not come",
    "router/zeros/8/1/1/a hint too few": "broken: waits for ever: 27 hints, 0 words of the row armed",
    "router/zeros/8/1/1/the row as it is": "broken: waits for ever: 28 hints, 3584 words of the row armed",
}


@pytest.fixture(scope="module")
def played(vllm_source: Path) -> dict[str, str]:
    code, said = ran("simulated_front", vllm_source, *ROUTED, *PROJECTED, *FAULTS)
    assert code == 0, said
    return dict(line.split(": ", 1) for line in said.splitlines())


@compiler
@pytest.mark.parametrize("case", ROUTED)
def test_the_router_is_the_emulated_one(case: str, played: dict[str, str]) -> None:
    assert played[case] == "{'ids': 0, 'weights': 0}"


@compiler
@pytest.mark.parametrize("case", PROJECTED)
def test_the_latent_is_the_emulated_one(case: str, played: dict[str, str]) -> None:
    assert played[case] == "{'out': 0}"


@compiler
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_kernel_is_seen(fault: str, played: dict[str, str]) -> None:
    assert played[fault] == FAULTS[fault]


EDITS = {
    "every rank packs the first one's rows": (
        entries.PROVIDERS,
        {"router[rank * rows : (rank + 1) * rows]": "router[:rows]"},
        "router/trained/8/3/3",
        "'ids': [1-9]",
    ),
    "columns by the router's rows": (
        entries.FRONT,
        {"c.Int32(box.rank * shard)": "c.Int32(box.rank * valid)"},
        "latent_down/trained/16/33/64",
        "rank 0 waits for ever: 80640 words are armed",
    ),
}


@compiler
@pytest.mark.parametrize("name", EDITS)
def test_a_fault_of_vllms_host_code_is_seen(name: str, edited: Edit) -> None:
    file, replacements, case, seen = EDITS[name]
    code, said = ran("simulated_front", edited(file, replacements), case)
    assert code == 0, said
    assert re.search(seen, said)


@compiler
@pytest.mark.parametrize("profile", ["gb300-tp8", "gb300-tp16"])
def test_the_kernels_are_those_of_a_deployment(profile: str, vllm_source: Path) -> None:
    assert ran("unasked", vllm_source, profile, "router/ and trained") == (0, "")


@compiler
def test_another_kernel_than_a_deployments_is_seen(edited: Edit) -> None:
    root = edited(entries.CHAIN, {"grid=box.sms - 8": "grid=box.sms - 9"})
    assert ran("unasked", root, "gb300-tp8", "router/ and batch1- and regime1/") == (
        1,
        "small_batch/MoeFrontTP8/kind=front,grid=144,renorm=1\n",
    )


def test_an_area_with_another_word_is_broken() -> None:
    box = torch.zeros(2, 4, dtype=torch.bfloat16)
    front.fill([(box, SENTINEL)])
    check_armed("box", box)
    box[1, 3] = 1.0
    with pytest.raises(Broken, match="1 words of box are not armed again"):
        check_armed("box", box)
