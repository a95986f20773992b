"""Which deployments a profile has."""

from validate import profiles
from validate.kernels.deployment import backbone, deployments


def test_every_tp_size_with_and_without_drafts_and_context_parallelism() -> None:
    found = deployments(profiles.load("cpu"))
    assert [d.name for d in found[:4]] == ["tp8-q1", "tp8-q1-dcp", "tp8-q2", "tp8-q2-dcp"]
    assert {d.tp for d in found} == {8, 16}, "the specialized path has no TP1"
    assert len({d.name for d in found}) == len(found) == 16


def test_the_layers_are_kimi_k3s() -> None:
    layers = backbone(deployments(profiles.load("cpu"))[0]).layers
    assert len(layers) == 93
    assert sum(hasattr(layer.self_attn, "W_UV") for layer in layers) == 24
    assert [layer.layer_idx for layer in layers if not layer.is_moe_layer] == [0]
    assert max(layer.prev_valid_blocks for layer in layers) == 8
