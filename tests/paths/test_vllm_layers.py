"""The decoder layers that stand in for the model's, against the model's own rules."""

import pytest
import torch

from validate.model.dimensions import K3
from validate.paths.vllm.o_proj import _layer


@pytest.mark.parametrize(("parity", "write"), [(0, False), (1, False), (0, True)])
def test_the_projections_layers_are_the_models(parity: int, write: bool) -> None:
    """vLLM 0.33.0, models/kimi_k3/nvidia/model.py: write layers are multiples of 12, ceil(index / 12) blocks are valid."""
    layer = _layer(torch.zeros(K3.hidden, 4), parity, write)
    assert layer.layer_idx % 2 == parity
    assert layer.layer_idx < K3.layers
    assert layer.is_block_write_layer == (layer.layer_idx % K3.attn_res_block == 0)
    assert layer.prev_valid_blocks == -(-layer.layer_idx // K3.attn_res_block)
    assert layer.prev_valid_blocks + write == 8
    assert K3.is_mla(layer.layer_idx) == (parity == 1)
