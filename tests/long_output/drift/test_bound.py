"""The bound from the contraction is never exceeded: recurrences drawn at random, run by both paths' own steps."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from validate.long_output.drift.bound import UNIT, added, decay_error, keeps
from validate.long_output.drift.stream import Stream
from validate.long_output.drift.subject import default, specialized
from validate.long_output.drift.yardstick import OWN, Yardstick
from validate.paths.emulated.kda import DefaultKda, SpecializedKda

STEPS = 64
VALUES = 2
KEYS = 64


def error_and_bound(path: DefaultKda, seed: int, decays: tuple[float, float], beta: float, repeated: bool) -> tuple[float, float]:
    """Of the last state, 2-norms, where both get the same fp32 inputs: decays within ``decays``, write gates up to ``beta``.

    ``repeated``: every step is the same, so that its roundings all go one way.
    """
    generator = torch.Generator().manual_seed(seed)
    low, high = decays
    computed = torch.zeros(1, 1, VALUES, KEYS)
    exact, bound = computed.double(), torch.zeros((), dtype=torch.float64)
    for n in range(STEPS):
        if n == 0 or not repeated:
            decay = low + (high - low) * torch.rand(1, 1, KEYS, generator=generator)
            gate = beta * torch.rand(1, 1, generator=generator)
            key = torch.randn(1, 1, KEYS, generator=generator)
            key = key / key.norm() * (1 - 2.0**-20)
            value = torch.randn(1, 1, VALUES, generator=generator)
        decayed = exact * decay.double()
        delta = (value.double() - (decayed * key.double()).sum(-1)) * gate.double()
        new = decayed + delta[..., None] * key.double()
        sizes = decayed.norm(), (new - decayed).norm(), new.norm()
        nothing = torch.zeros((), dtype=torch.float64)
        errors = nothing, gate.double().squeeze(), nothing, 0.0
        bound = keeps(decay.max().double(), *errors) * bound + added(sizes, *errors)
        exact = new
        computed, _ = path.step(computed, decay, gate, key, key, value)
    return float((computed - exact).norm()), float(bound)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    lanes=st.sampled_from([0, 8, 16]),
    low=st.floats(0.0, 1.0, width=32),
    high=st.floats(0.0, 1.0, width=32),
    beta=st.floats(0.0, 1.0, width=32),
    repeated=st.booleans(),
)
def test_no_contracting_recurrence_exceeds_it(
    seed: int, lanes: int, low: float, high: float, beta: float, repeated: bool
) -> None:
    path = SpecializedKda() if lanes else DefaultKda()
    path.lanes = lanes  # type: ignore[attr-defined]
    error, bound = error_and_bound(path, seed, (min(low, high), max(low, high)), beta, repeated)
    assert error <= bound


def test_a_lost_bit_exceeds_it() -> None:
    """The negative control: not every error is within it."""

    class Coarse(DefaultKda):
        def step(self, *given: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            state, attended = super().step(*given)
            return state.bfloat16().float(), attended

    error, bound = error_and_bound(Coarse(), 0, (0.5, 0.9), 0.5, False)
    assert error > bound


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["default", "specialized"])
def test_the_inputs_errors_are_within_theirs(name: str, seed: int) -> None:
    """delta_d, delta_beta and kappa, of 128 steps and of gates that are wide open and shut."""
    stream = Stream(seed)
    block = stream.block(0)
    block.gate[::3] *= 8
    block.beta[::3] *= 6
    both = [specialized("s", SpecializedKda(), stream.inputs).prepare(block), default(stream.inputs).prepare(block)]
    exact = Yardstick(stream.inputs).prepare(block, *(prepared.activated for prepared in both))
    own = OWN[name]
    got = both[own]
    assert exact.strays.tolist() == [0, 0]
    assert ((got.decay / exact.decay - 1).abs() <= decay_error(exact.log_decay)).all()
    assert ((got.beta / exact.beta - 1).abs() <= exact.beta_error).all()
    for vector, there in ((got.key, exact.key[:, own]), (got.query, exact.query[:, own])):
        assert ((vector - there).norm(dim=-1) <= UNIT * there.norm(dim=-1)).all()
