"""The stand-in in vLLM's engine: it decodes what the whole sequence gives, and drafts change nothing.

Skipped without vLLM. All in float32, where batches change no more than the order of sums, and a greedy token only in a tie.
"""

import dataclasses
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch

from tests.standin.engine import Found, Wanted, read
from tests.support import ROOT
from validate.standin import weights
from validate.standin.specialized import SpecializedForms

pytestmark = pytest.mark.engine

PRACTICE = ROOT / "golden" / "practice"


def speculating(drafts: int, **how: Any) -> dict[str, Any]:
    by_name = {"method": "custom_class", "model": "validate.standin.drafter.Drafter"}
    return {
        "per_request_spec_decode_metrics": "detailed",
        "speculative_config": {**(how or by_name), "num_speculative_tokens": drafts},
    }


PREEMPTED = (12, 31)  # most requests verify drafts then
RUNS = {
    "undrafted": Wanted(),
    "undrafted-specialized": Wanted(backend="latency_specialized"),
    "drafts": Wanted(speculating(3), backend="latency_specialized", preempted=PREEMPTED),
    "drafts, no prefix cache": Wanted(speculating(3) | {"enable_prefix_caching": False}, preempted=PREEMPTED),
    "seven drafts, little memory": Wanted(speculating(7) | {"num_gpu_blocks_override": 110}, backend="latency_specialized"),
    "partial drafts": Wanted(
        speculating(3, method="ngram", prompt_lookup_min=1, prompt_lookup_max=4), backend="latency_specialized"
    ),
}
DRAFTED = [name for name in RUNS if "drafts" in name]


@cache
def ran(name: str, fault: str | None = None) -> Found:
    """A run of ``RUNS``, once a session; with a fault, if one is named."""
    wanted = dataclasses.replace(RUNS[name], fault=fault)
    with TemporaryDirectory() as folder:
        there, found = Path(folder) / "wanted.json", Path(folder) / "found.json"
        there.write_text(json.dumps(dataclasses.asdict(wanted)))
        command = [sys.executable, "-m", "tests.standin.engine", str(there), str(found)]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr[-3000:]
        return read(found)


def changed(found: Found) -> list[str]:
    """The requests that got other tokens than without drafts."""
    plain = ran("undrafted").answers
    assert set(found.answers) == set(plain)
    return [name for name, answer in plain.items() if found.answers[name].tokens != answer.tokens]


@pytest.mark.parametrize("name", DRAFTED)
def test_drafts_change_no_token(name: str) -> None:
    assert changed(ran(name)) == []


@pytest.mark.parametrize(
    "fault",
    ["all drafts count as accepted", "every step starts from the first slot", "short prompts count as drafts"],
)
def test_a_wrong_slot_changes_tokens(fault: str) -> None:
    assert changed(ran("drafts", fault))


@pytest.mark.parametrize("name", DRAFTED)
def test_every_number_of_drafts_is_accepted_somewhere(name: str) -> None:
    found = ran(name)
    most = max(drafts for answer in found.answers.values() for drafts in answer.drafted)
    assert {accepted for answer in found.answers.values() for accepted in answer.accepted} == set(range(most + 1))


def test_the_situations_occur() -> None:
    """Blocks are found in the cache, requests that verify are preempted, prompts arrive meanwhile, answers end within a step."""
    found = ran("drafts")
    assert found.cache_mode == "align"
    assert ran("drafts, no prefix cache").cache_mode == "none"
    assert {answer.cached for name, answer in found.answers.items() if name in ("shared-1", "shared-2")} == {256}
    preempted = [answer for answer in found.answers.values() if answer.preemptions]
    assert sum(bool(answer.drafted) for answer in preempted) > 10
    assert any(answer.preemptions for answer in ran("seven drafts, little memory").answers.values())
    assert {step["kind"] for step in found.steps} == {"prefill", "mixed", "verify"}
    cut = {
        answer.finish
        for answer in found.answers.values()
        if not answer.preemptions and 1 + sum(answer.accepted) + len(answer.accepted) > len(answer.tokens)
    }
    assert cut == {"length", "stop"}


def test_steps_are_counted_by_their_drafts() -> None:
    whole = {(step["path"], step["kind"], step["q"], step["reason"]) for step in ran("drafts").steps}
    assert ("specialized", "verify", 4, "") in whole
    assert not any(reason == "partial drafts" for *_, reason in whole)
    partial = {(step["path"], step["kind"], step["reason"]) for step in ran("partial drafts").steps}
    assert ("default", "verify", "partial drafts") in partial
    seven = ran("seven drafts, little memory").steps
    sizes = {step["rows"] for step in seven if (step["path"], step["kind"], step["q"]) == ("specialized", "verify", 8)}
    assert len(sizes) > 2
    assert all(rows % 8 == 0 for rows in sizes)


def whole_sequences(found: Found, specialized: bool) -> dict[str, torch.Tensor]:
    """Log-probabilities of each answer's tokens from one forward pass over prompt and answer, [tokens] fp32."""
    from validate.standin.training import Trainee

    flat = {name: value.float() for name, value in weights.load(PRACTICE).items()}
    trainee, made = Trainee(weights.PRACTICE, flat), {}
    if specialized:
        trainee.forms = SpecializedForms(weights.PRACTICE)
    for name, answer in found.answers.items():
        tokens = torch.tensor(answer.prompt + answer.tokens)
        with torch.no_grad():
            said = trainee(tokens[None])[0, len(answer.prompt) - 1 : -1].log_softmax(-1)
        made[name] = said.gather(1, torch.tensor(answer.tokens)[:, None])[:, 0]
    return made


def farthest(found: Found, whole: dict[str, torch.Tensor]) -> float:
    return max(float((torch.tensor(found.answers[name].logprobs) - one).abs().max()) for name, one in whole.items())


@cache
def allowed() -> float:
    """What orders of summation do: eight times the largest difference between the two forms over all positions.

    The engine adds up in yet another order in its attention, its recurrence and its experts: as many places again as the two
    forms differ in, and the largest of some thousand differences is uncertain by a factor of two.
    """
    found = ran("undrafted")
    default, specialized = whole_sequences(found, False), whole_sequences(found, True)
    return 8 * max(float((specialized[name] - one).abs().max()) for name, one in default.items())


@pytest.mark.parametrize("name", list(RUNS))
def test_the_engine_decodes_what_the_whole_sequence_gives(name: str) -> None:
    found = ran(name)
    assert farthest(found, whole_sequences(found, RUNS[name].backend != "auto")) < allowed()


@pytest.mark.parametrize("name", ["undrafted", "drafts"])
def test_slots_of_another_cache_group_are_found(name: str) -> None:
    """Layers of different cache groups share memory: with one group's slots for all, they write over each other's states."""
    found = ran(name, "one cache group's slots for all layers")
    assert farthest(found, whole_sequences(found, RUNS[name].backend != "auto")) > 100 * allowed()
