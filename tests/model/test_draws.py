"""Seeded numbers: the same everywhere, independent by name, of the promised shape."""

import hashlib

import pytest
import torch

from validate.model.draws import Draws
from validate.model.synthetic import OUTLIER_EVERY, activation, gate_logits


def digest(values: torch.Tensor) -> str:
    return hashlib.sha256(values.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()[:16]


def test_numbers_are_those_of_every_other_machine() -> None:
    """Recorded once; a machine that differs would validate other inputs than the ones it names."""
    assert digest(Draws("golden", 1).bell((1000,), 0.1, torch.float32)) == "e2707c48f32cb215"
    assert digest(Draws("golden", 1).uniform((1000,))) == "adefd5b6218a58fc"
    assert digest(Draws("golden", 1).integers((1000,), -5, 100)) == "0b6cebbe7260c5e8"
    assert digest(Draws("golden", 1).permutation(1000)) == "6a2bc97f3708de55"


def test_streams_with_other_names_differ() -> None:
    assert not torch.equal(Draws("a", 1).uniform((8,)), Draws("a", 2).uniform((8,)))
    assert torch.equal(Draws("a", 1).uniform((8,)), Draws("a", 1).uniform((8,)))


def test_bell_is_the_same_drawn_in_parts_as_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Draws("parts").bell((1000,))
    monkeypatch.setattr("validate.model.draws._CHUNK", 64)
    assert torch.equal(Draws("parts").bell((1000,)), whole)


def test_bell_has_unit_deviation_and_no_mean() -> None:
    values = Draws("moments").bell((200_000,))
    # Standard errors: 1 / sqrt(n) of the mean, less than 1 / sqrt(2 n) of the deviation (its tails are light).
    assert abs(float(values.mean())) < 5 * 200_000**-0.5
    assert abs(float(values.std()) - 1) < 5 * 400_000**-0.5


def test_permutation_holds_every_index_once() -> None:
    assert Draws("order").permutation(501).sort().values.tolist() == list(range(501))


def test_integers_stay_in_range_and_reach_its_ends() -> None:
    values = Draws("range").integers((10_000,), -3, 4)
    assert (int(values.min()), int(values.max())) == (-3, 3)


def test_activations_have_outlier_channels() -> None:
    values = activation(Draws("x"), 64, 7168).float()
    level = values.square().mean(0).sqrt()
    outliers = level[OUTLIER_EVERY // 2 :: OUTLIER_EVERY]
    assert float(outliers.min()) > 10 * float(level.median())


def test_gates_are_saturated_moderate_and_near_zero() -> None:
    values = gate_logits(Draws("g"), (20_000,)).float().abs()
    assert (values > 10).float().mean() > 0.02
    assert (values < 2.0**-8).float().mean() > 0.02
    assert ((values > 0.1) & (values < 5)).float().mean() > 0.5
