"""The stream's heads forget as they are to, from quickly to hardly at all, and are the same on every machine."""

import pytest
import torch

from validate.long_output.drift.heads import HEADS
from validate.long_output.drift.stream import Stream
from validate.model.dimensions import K3
from validate.reference.kda import log_decays


@pytest.mark.parametrize("seed", [0, 1])
def test_mean_log_decays_are_those_of_the_memories(seed: int) -> None:
    """Within 25 %: shifts are on a grid, and a head's channels are 128."""
    stream = Stream(seed)
    gates = torch.cat([stream.block(n).gate.double().flatten(0, 1) for n in range(8)])
    mean = -log_decays(gates, stream.inputs).view(-1, HEADS, K3.head_dim).mean((0, 2))
    assert (mean * stream.heads.memory - 1).abs().max() < 0.25
    assert stream.heads.memory[0] == 2
    assert stream.heads.memory[-1] == 16_384


def test_shifts_are_on_their_grid() -> None:
    """So that no machine's exp has a say."""
    again = Stream(0).heads
    assert torch.equal(again.dt_bias, Stream(0).heads.dt_bias)
    assert torch.equal(again.beta_shift * 16, (again.beta_shift * 16).round())


def test_blocks_differ_and_seeds_differ() -> None:
    blocks = [Stream(0).block(0), Stream(0).block(1), Stream(1).block(0)]
    assert len({float(block.x.double().sum()) for block in blocks}) == 3
    assert torch.equal(blocks[0].x, Stream(0).block(0).x)
