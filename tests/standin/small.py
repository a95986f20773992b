"""A stand-in of a few thousand parameters, every weight drawn."""

import torch
from torch import Tensor

from validate.model.dimensions import Dimensions
from validate.standin import weights

SMALL = Dimensions(
    hidden=32,
    layers=6,
    heads=4,
    head_dim=8,
    conv_width=4,
    q_lora=16,
    kv_lora=12,
    qk_nope=8,
    qk_rope=4,
    v_head=8,
    experts=8,
    top_k=3,
    latent=16,
    moe_intermediate=8,
    shared_intermediate=16,
    dense_intermediate=32,
    vocab=64,
    attn_res_block=2,
)


def drawn(dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """First values, and what begins as 0 or 1 moved from there, so that no weight is without effect."""
    generator = torch.Generator().manual_seed(1)
    found = weights.first(SMALL, 0)
    for name, value in found.items():
        if name.endswith(("norm", "bias", "query")) and "dt_bias" not in name:
            found[name] = value + 0.3 * torch.randn(value.shape, generator=generator)
    return {name: value.to(dtype) for name, value in found.items()}
