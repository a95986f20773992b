"""The subjects are the paths' own recurrences: forms that give the same bits, the whole stage's states."""

import io
from pathlib import Path

import pytest
import torch
from rich.console import Console

from tests.long_output.drift.made import NAME, lockstep
from validate.errors import InputError
from validate.faults.drift.events import StoredLate
from validate.long_output.drift import progress
from validate.long_output.drift.heads import HEADS
from validate.long_output.drift.stream import KEYS, REQUESTS, VALUES
from validate.paths.emulated.kda import DefaultKda, SpecializedKda


def test_both_lane_counts_give_the_same_bits() -> None:
    """So one of TP8's and TP16's forms is run: a change of ``SpecializedKda.dot`` that ends this has to run both."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    state, decay, beta = normal(REQUESTS, HEADS, VALUES, KEYS), normal(REQUESTS, HEADS, KEYS).sigmoid(), normal(REQUESTS, HEADS)
    query, key, value = normal(REQUESTS, HEADS, KEYS), normal(REQUESTS, HEADS, KEYS), normal(REQUESTS, HEADS, VALUES)
    results = []
    for lanes in (8, 16):
        path = SpecializedKda()
        path.lanes = lanes
        results.append(path.step(state, decay, beta, query, key, value))
    by_tree = DefaultKda().dot(state, key)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
    assert not torch.equal(by_tree, path.dot(state, key))  # the default path's order is another one


def test_requests_and_blocks_go_on() -> None:
    """A lockstep that is restored goes on with the same bits, a planted fault's count included."""
    whole, first, second = (lockstep(StoredLate()) for _ in range(3))
    for made in (whole, first):
        made.block()
    second.restore(first.kept())
    for made in (whole, second):
        made.block()
    assert second.steps == 256
    assert [s.path.__dict__ for s in second.subjects] == [s.path.__dict__ for s in whole.subjects]
    for name, track in whole.tracks.items():
        assert (track.figures == second.tracks[name].figures).all()
    assert NAME in second.tracks


def test_a_run_goes_on_from_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a seed, and of another seed nothing is taken up; a file that is damaged is refused."""
    monkeypatch.setattr(progress, "SAVED_EVERY", 0.0)
    made, went_on, other = (lockstep(SpecializedKda()) for _ in range(3))
    made.block()
    out = Console(file=io.StringIO())
    progress.Progress(tmp_path, out, 3, 1000).tick(made)
    progress.Progress(tmp_path, out, 3, 1000).restore(went_on)
    progress.Progress(tmp_path, out, 4, 1000).restore(other)
    assert (went_on.steps, other.steps) == (128, 0)
    assert torch.equal(went_on.subjects[1].state, made.subjects[1].state)
    (tmp_path / progress.FILE).write_bytes(b"cut off")
    with pytest.raises(InputError, match="remove it"):
        progress.Progress(tmp_path, out, 3, 1000).restore(went_on)
