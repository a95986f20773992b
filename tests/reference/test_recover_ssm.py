"""The RecoverSSM reference against KDA's, which fla's recurrence checks, and by hand where the two differ."""

import pytest
import torch

from validate.model.call import Call, Expected
from validate.numerics import judge, recover_ssm
from validate.numerics.case import Case
from validate.paths.emulated import Emulated
from validate.profiles import load
from validate.reference import kda
from validate.reference.points import Points
from validate.reference.recover_ssm import reference


def build(requests: int, q: int, inputs: str, state: int = 32) -> Call:
    sizes = {"tp": 16, "batch": requests * q, "q": q, "state": state, "channels_first": 0}
    return recover_ssm.build(Case("recover_ssm", sizes, inputs, 0))


def expected(call: Call) -> dict[str, Expected]:
    return reference(call, Points("default"))


def kept(found: dict[str, Expected], name: str) -> dict[int, torch.Tensor]:
    """By slot."""
    where = found[name].where
    assert where is not None
    return dict(zip(where[0].tolist(), found[name].value, strict=True))


def one_by_one(call: Call, b: int, count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Outputs, state and the last three inputs after ``count`` tokens of request ``b``, each a plain decode step."""
    i, slot = call.inputs, int(call.inputs["slots"][b])
    taps, state = call.buffers["conv"][slot, :, :3].double(), call.buffers["state"][slot].double()
    out = []
    for row in range(int(i["starts"][b]), int(i["starts"][b]) + count):
        step = {name: i[name][row : row + 1] for name in ("x", "gate", "f_a", "beta")}
        slots = {"slots": torch.tensor([[1]]), "accepted": torch.tensor([1])}
        buffers = {"conv": torch.stack([taps, taps]), "state": torch.stack([state, state])}
        after = kda.reference(Call("kda", {"tp": 16, "q": 1}, {**i, **step, **slots}, call.empty, buffers), Points("default"))
        out.append(after["out"].value[0])
        taps, state = after["conv"].value[0], after["state"].value[0]
    return torch.stack(out), state, taps


@pytest.mark.parametrize(("requests", "q", "inputs"), [(1, 4, "trained"), (3, 4, "ragged"), (3, 2, "mixed"), (1, 8, "saturated")])
def test_a_step_and_its_commit_are_the_accepted_tokens_decoded_one_by_one(requests: int, q: int, inputs: str) -> None:
    call = build(requests, q, inputs)
    found, i = expected(call), call.inputs
    states, taps = kept(found, "state"), kept(found, "conv")
    for b in range(requests):
        request = int(i["indices"][b]) if inputs == "mixed" else b
        count, slot, start = int(i["accepted"][request]), int(i["slots"][b]), int(i["starts"][b])
        assert 1 <= count <= int(i["starts"][b + 1]) - start
        out, state, last = one_by_one(call, b, count)
        assert torch.allclose(found["out"].value[start : start + count], out, rtol=1e-12, atol=1e-15)
        assert torch.allclose(states[slot], state, rtol=1e-12, atol=1e-15)
        assert torch.equal(taps[slot][:, :3], last)


def test_the_end_of_a_block_is_kept_where_the_window_passes_it() -> None:
    """Request 0 has one token to the end of its block, and four accepted: block 0 gets S_1, block 1 S_4."""
    call = build(1, 4, "aligned")
    i, states, taps = call.inputs, kept(expected(call), "state"), kept(expected(call), "conv")
    assert (i["computed"].tolist(), i["accepted"].tolist(), i["block"]) == ([15], [4], 16)
    first, second = i["table"][0].tolist()
    assert i["slots"].tolist() == [second]
    assert set(states) == set(taps) == {first, second}
    for slot, count in ((first, 1), (second, 4)):
        _, state, last = one_by_one(call, 0, count)
        assert torch.allclose(states[slot], state, rtol=1e-12, atol=1e-15)
        assert torch.equal(taps[slot][:, :3], last)
    assert torch.equal(taps[first][:, 3:], call.buffers["conv"][first, :, 3:].double())


def test_a_padded_request_gives_zeros_and_writes_nothing() -> None:
    call = build(4, 2, "padded")
    i, found = call.inputs, expected(call)
    dead = [b for b in range(4) if i["slots"][b] <= 0]
    assert dead
    for b in dead:
        assert not found["out"].value[2 * b : 2 * b + 2].any()
    assert min(kept(found, "state")) > 0
    assert min(kept(found, "conv")) > 0


def test_the_cases_meet_every_kind_at_both_states_and_sizes() -> None:
    cases = judge.cases(load("cpu"), ["recover_ssm"])
    assert len(cases) <= 40
    for name in ("tp", "state"):
        by_size: dict[int, set[str]] = {}
        for case in cases:
            by_size.setdefault(case.sizes[name], set()).add(case.inputs)
        assert all(kinds == {*recover_ssm.ALONE, *recover_ssm.TOGETHER} for kinds in by_size.values()), name
    assert {case.sizes["channels_first"] for case in cases if case.sizes["state"] == 16} == {0, 1}


def test_mixed_steps_have_other_counts_beside_those_that_verify() -> None:
    i = build(2, 4, "mixed").inputs
    assert i["indices"].tolist() == [1, 3]
    assert i["accepted"][:2].tolist() != i["accepted"][i["indices"].long()].tolist()


def test_the_specialized_path_refuses_it() -> None:
    judgement = judge.judge_call(build(1, 2, "trained"), [Emulated("specialized")])[0]
    assert judgement.missing is not None
    assert judgement.missing.startswith("refused:")
