"""Every size that nobody checks is looked at, and what a configuration leaves out is what vLLM puts there."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from validate.preflight import findings
from validate.preflight.deployment import Deployment
from validate.preflight.dimensions import DEFAULTS
from validate.preflight.refusals import MOE_DEFAULTS

Deploy = Callable[..., Deployment]
CONFIGURATION = "vllm/transformers_utils/configs/kimi_linear.py"

FIXED = {
    "hidden_size": 4096,
    "num_attention_heads": 64,
    "q_lora_rank": 768,
    "kv_lora_rank": 256,
    "qk_nope_head_dim": 192,
    "qk_rope_head_dim": 32,
    "v_head_dim": 64,
    "mla_use_nope": False,
    "mla_use_output_gate": False,
    "routed_expert_hidden_size": 7168,
    "moe_intermediate_size": 1536,
    "num_shared_experts": 1,
    "linear_attn_config.num_heads": 64,
    "linear_attn_config.head_dim": 64,
    "linear_attn_config.short_conv_kernel_size": 2,
    "linear_attn_config.use_full_rank_gate": False,
}
GIVEN = {
    "num_hidden_layers": 90,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 2,
    "intermediate_size": 18432,
    "vocab_size": 32000,
    "attn_res_block_size": 8,
    "rms_norm_eps": 1e-6,
    "routed_scaling_factor": 2.5,
    "moe_renormalize": False,
    "linear_attn_config.gate_lower_bound": -3.0,
}


@pytest.mark.parametrize(("name", "value"), FIXED.items(), ids=FIXED)
def test_sizes_that_the_kernels_fix(deploy: Deploy, name: str, value: Any) -> None:
    (finding,) = findings(deploy(text={name: value}))
    assert (finding.severity, finding.name) == ("refuse", "G3")
    assert finding.what.startswith(f"{name} is {value}, ")


@pytest.mark.parametrize(("name", "value"), GIVEN.items(), ids=GIVEN)
def test_sizes_that_the_kernels_are_told(deploy: Deploy, name: str, value: Any) -> None:
    (finding,) = findings(deploy(text={name: value}))
    assert (finding.severity, finding.name) == ("warn", "G3")
    assert finding.what.startswith(f"{name} is {value}, ")


@pytest.mark.parametrize("name", ["hidden_size", "rms_norm_eps", "linear_attn_config"])
def test_what_is_left_out_has_vllms_default(deploy: Deploy, name: str) -> None:
    found = findings(deploy(text={name: None}))
    assert any(finding.what.startswith(name) for finding in found)


def test_the_defaults_are_those_of_vllms_configuration_class(vllm_source: Path) -> None:
    tree = ast.parse((vllm_source / CONFIGURATION).read_text())
    (made,) = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    names = [argument.arg for argument in made.args.args][-len(made.args.defaults) :]
    theirs = {name: ast.literal_eval(value) for name, value in zip(names, made.args.defaults, strict=True)}
    ours = {name: value for name, value in (DEFAULTS | MOE_DEFAULTS).items() if "." not in name}
    assert ours == {name: theirs[name] for name in ours}
