"""Every planted fault is found, at a step that it changes, and the sound paths beside it are not."""

import pytest
import torch

from tests.long_output.drift.made import NAME, failed, heads, lockstep
from validate.faults import drift as faults
from validate.faults.drift import events, precision
from validate.long_output.drift import acceptance
from validate.long_output.drift import lockstep as together
from validate.long_output.drift.lockstep import Lockstep
from validate.long_output.drift.stream import STEPS, Stream
from validate.long_output.drift.subject import Subject, specialized
from validate.paths.emulated.kda import DefaultKda, SpecializedKda

EARLY = 192  # takes the place of thousands of steps


@pytest.fixture
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults happen after ``EARLY`` steps."""
    monkeypatch.setattr(faults, "RARE", EARLY)
    for name in ("SWAPPED", "STALE", "POISONED", "WRAPS"):
        monkeypatch.setattr(events, name, EARLY)
    for name in ("TF32_FROM", "LOSES_A_BIT", "BF16_FROM"):
        monkeypatch.setattr(precision, name, EARLY)


@pytest.mark.usefixtures("early")
def test_all_are_found_and_no_sound_path_is() -> None:
    stream, known = Stream(1), faults.catalogue()
    assert len(known) >= 8
    sound = specialized(NAME, SpecializedKda(), stream.inputs)
    made = Lockstep(stream, [sound, *(specialized(f.name, f.implementation(), stream.inputs) for f in known.values())])
    while made.steps < 5 * STEPS:
        made.block()
    found = {name: acceptance.first_out(made.tracks[name]) for name in made.tracks}
    assert found.pop("emulated-default") is None
    assert found.pop(NAME) is None
    missed = [name for name, out in found.items() if out is None]
    assert missed == []
    for name, out in found.items():
        assert out is not None
        assert (out[1] >= EARLY) == (known[name].from_step > 1), name


class OneOutput(SpecializedKda):
    """An output that is no number, in one step between two samples; its state is sound."""

    taken = 0

    def step(self, *given: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        new, attended = super().step(*given)
        self.taken += 1
        return new, attended * float("nan") if self.taken == 37 else attended


def test_an_output_between_two_samples_that_is_no_number_is_found() -> None:
    stream = Stream(1)
    made = Lockstep(stream, [specialized(NAME, OneOutput(), stream.inputs)])
    made.block()
    assert acceptance.first_out(made.tracks[NAME]) == ("finite", 48)
    assert acceptance.first_out(made.tracks["emulated-default"]) is None


def test_from_step_is_the_first_that_changes() -> None:
    """Of the rare faults: nothing differs from the sound path before."""
    for name, fault in faults.catalogue().items():
        if fault.from_step > 1:
            path = fault.implementation()
            vars(path)["taken"] = fault.from_step - 2
            assert same_step(path, 1), name
            assert not same_step(path, 2), name


def same_step(path: SpecializedKda, number: int) -> bool:
    """Whether the stored states of one more step are those of the sound path."""
    generator = torch.Generator().manual_seed(number)
    stream = Stream(0)
    sound, other = specialized("sound", SpecializedKda(), stream.inputs), specialized("other", path, stream.inputs)
    start = torch.randn(sound.state.shape, generator=generator)
    prepared = sound.prepare(stream.block(0))
    for subject in (sound, other):
        subject.state = start.clone()
        subject.step(prepared, 0)
    return torch.equal(sound.state, other.state)


def coarser(value: torch.Tensor, stores: int) -> torch.Tensor:
    """Rounded to nearest with a bit less after each 1,000 stores (500 steps of two requests)."""
    bits = min(stores // 1000, 8)
    if bits == 0:
        return value
    half = 1 << (bits - 1)
    return faults.cut((value.contiguous().view(torch.int32) + half).view(torch.float32), bits)


def test_what_both_paths_lose_shows_as_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state that both paths store ever more coarsely is no worse than the default path's, and within the bound: it grows."""

    class Sinking(SpecializedKda):
        stores = 0

        def store(self, state: torch.Tensor, slot: int, value: torch.Tensor) -> None:
            self.stores += 1
            super().store(state, slot, coarser(value, self.stores))

    class SinkingDefault(DefaultKda):
        stores = 0

        def store(self, state: torch.Tensor, slot: int, value: torch.Tensor) -> None:
            self.stores += 1
            super().store(state, slot, coarser(value, self.stores))

    monkeypatch.setattr(together, "default", lambda inputs: Subject("emulated-default", SinkingDefault(), inputs))
    made = lockstep(Sinking())
    while made.steps < 3000:
        made.block()
    assert failed(made) == {"growth"}
    assert max(head.exponent or 0.0 for head in heads(made)) > 0.3
