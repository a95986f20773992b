"""The file of weights gives back the bits that went into it."""

from dataclasses import asdict
from pathlib import Path

import torch

from tests.standin.small import SMALL, drawn
from validate.standin import weights


def test_the_file_keeps_every_bit(tmp_path: Path) -> None:
    import json

    given = drawn(torch.bfloat16)
    weights.save(SMALL, given, tmp_path)
    found = weights.load(tmp_path)
    assert set(found) == set(given) == set(weights.names(SMALL))
    assert all(torch.equal(found[name].view(torch.int16), given[name].view(torch.int16)) for name in given)
    config = json.loads((tmp_path / "config.json").read_text())
    assert {name: config[name] for name in asdict(SMALL)} == asdict(SMALL)


def test_every_layer_gets_its_own(tmp_path: Path) -> None:
    given = drawn()
    layers, ends = weights.by_layer(SMALL, given)
    assert sum(len(layer) for layer in layers) + len(ends) == len(given)
    assert layers[3]["q_b"] is given["layers.3.q_b"]
    assert "gate_up" in layers[0]
    assert "router" in layers[1]
