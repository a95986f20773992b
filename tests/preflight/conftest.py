"""A made-up configuration with Kimi K3's sizes, and deployments that differ from a sound one in one thing."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from validate.preflight.deployment import Deployment, engine

SPECIALIZED = {"decode_backend": "latency_specialized"}
MLA = [4 * n for n in range(1, 24)] + [93]  # config.json counts layers from 1
CONFIG: dict[str, Any] = {
    "model_type": "kimi_k3",
    "text_config": {
        "dtype": "bfloat16",
        "hidden_size": 7168,
        "num_hidden_layers": 93,
        "num_attention_heads": 96,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "mla_use_nope": True,
        "mla_use_output_gate": True,
        "num_experts": 896,
        "num_experts_per_token": 16,
        "num_expert_group": 1,
        "topk_group": 1,
        "moe_router_activation_func": "sigmoid",
        "moe_renormalize": True,
        "routed_scaling_factor": 1.0,
        "routed_expert_hidden_size": 3584,
        "latent_moe_use_norm": True,
        "moe_intermediate_size": 3072,
        "num_shared_experts": 2,
        "first_k_dense_replace": 1,
        "intermediate_size": 33792,
        "vocab_size": 163840,
        "hidden_act": "situ",
        "activation_situ_beta": 4.0,
        "activation_situ_linear_beta": 25.0,
        "rms_norm_eps": 1e-5,
        "attn_res_block_size": 12,
        "linear_attn_config": {
            "num_heads": 96,
            "head_dim": 128,
            "short_conv_kernel_size": 4,
            "gate_lower_bound": -5.0,
            "use_full_rank_gate": True,
            "kda_layers": [n for n in range(1, 94) if n not in MLA],
            "full_attn_layers": MLA,
        },
        "quantization_config": {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized"},
    },
}
SOUND: dict[str, Any] = {
    "tensor_parallel_size": 16,
    "kv_cache_dtype": "fp8",
    "additional_config": SPECIALIZED,
    "watchdog_config": {"dump_dir": "dumps"},
}


def changed(text: dict[str, Any]) -> dict[str, Any]:
    """K3's configuration with other values; dots lead into it, None removes."""
    config = copy.deepcopy(CONFIG)
    for name, value in text.items():
        *owners, last = name.split(".")
        place = config["text_config"]
        for owner in owners:
            place = place[owner]
        if value is None:
            del place[last]
        else:
            place[last] = value
    return config


def deployed(
    arguments: dict[str, Any] | None = None,
    text: dict[str, Any] | None = None,
    environment: dict[str, str] | None = None,
    capability: tuple[int, int] = (10, 3),
) -> Deployment:
    """The sound deployment with other arguments, another configuration or other variables."""
    return Deployment(engine(SOUND | (arguments or {})), changed(text or {}), environment or {}, capability)


@pytest.fixture
def deploy() -> Callable[..., Deployment]:
    return deployed


@pytest.fixture
def config_json(tmp_path: Path) -> Path:
    """K3's configuration as a file."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    return path
