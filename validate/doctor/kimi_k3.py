"""Kimi K3's config.json as far as the pre-flight reads it, for a deployment that names none."""

from collections.abc import Mapping
from typing import Any

from validate.model.dimensions import K3
from validate.preflight.dimensions import FIXED, GIVEN
from validate.preflight.refusals import MOE


def config() -> dict[str, Any]:
    """The sizes and constants that the specialized kernels were written for."""
    text: dict[str, Any] = {"dtype": "bfloat16", "latent_moe_use_norm": True}
    for name, value in {**FIXED, **GIVEN, **MOE}.items():
        _put(text, name.split("."), value)
    text["linear_attn_config"] |= {
        "kda_layers": [n + 1 for n in range(K3.layers) if not K3.is_mla(n)],
        "full_attn_layers": [n + 1 for n in range(K3.layers) if K3.is_mla(n)],
    }
    weights: Mapping[str, str] = {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized"}
    return {"text_config": text | {"quantization_config": weights}}


def _put(table: dict[str, Any], path: list[str], value: Any) -> None:
    for key in path[:-1]:
        table = table.setdefault(key, {})
    table[path[-1]] = value
