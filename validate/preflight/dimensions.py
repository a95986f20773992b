"""G3: sizes and constants that vLLM 0.33.0 does not check, against those that the specialized kernels were written for."""

from collections.abc import Iterator, Mapping
from typing import Any

from validate.errors import InputError
from validate.model.dimensions import K3
from validate.preflight.deployment import Deployment
from validate.preflight.finding import CUTEDSL, Finding

SHARED_EXPERTS = K3.shared_intermediate // K3.moe_intermediate

# Written into the kernels: another value gives wrong results or a crash.
FIXED: Mapping[str, Any] = {
    "hidden_size": K3.hidden,
    "num_attention_heads": K3.heads,
    "q_lora_rank": K3.q_lora,
    "kv_lora_rank": K3.kv_lora,
    "qk_nope_head_dim": K3.qk_nope,
    "qk_rope_head_dim": K3.qk_rope,
    "v_head_dim": K3.v_head,
    "mla_use_nope": True,
    "mla_use_output_gate": True,
    "routed_expert_hidden_size": K3.latent,
    "moe_intermediate_size": K3.moe_intermediate,
    "num_shared_experts": SHARED_EXPERTS,
    "linear_attn_config.num_heads": K3.heads,
    "linear_attn_config.head_dim": K3.head_dim,
    "linear_attn_config.short_conv_kernel_size": K3.conv_width,
    "linear_attn_config.use_full_rank_gate": True,
}
# Handed to the kernels: another value may be right, but no case of this suite has it.
GIVEN: Mapping[str, Any] = {
    "num_hidden_layers": K3.layers,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "intermediate_size": K3.dense_intermediate,
    "vocab_size": K3.vocab,
    "attn_res_block_size": K3.attn_res_block,
    "rms_norm_eps": K3.rms_eps,
    "routed_scaling_factor": K3.routed_scaling,
    "moe_renormalize": True,
    "linear_attn_config.gate_lower_bound": K3.gate_lower_bound,
}
# What vLLM's configuration class puts where config.json says nothing; None otherwise.
DEFAULTS: Mapping[str, Any] = {
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "mla_use_nope": False,
    "mla_use_output_gate": False,
    "num_shared_experts": 0,
    "num_hidden_layers": 32,
    "first_k_dense_replace": 0,
    "moe_layer_freq": 1,
    "intermediate_size": 11008,
    "vocab_size": 163840,
    "rms_norm_eps": 1e-6,
    "routed_scaling_factor": 1.0,
    "moe_renormalize": True,
    "linear_attn_config.use_full_rank_gate": False,
}
PARITIES = 3  # of the MoE tail's mailbox


def findings(d: Deployment) -> Iterator[Finding]:
    """Every size that is not Kimi K3's: ``refuse`` where the kernels fix it, ``warn`` where they are told it."""
    for name, wanted in FIXED.items():
        value = _value(d.text, name)
        if value != wanted:
            what = f"{name} is {value}, but the kernels are written for {wanted}"
            yield Finding("refuse", "G3", what, "no other model has this path", CUTEDSL)
    for name, wanted in GIVEN.items():
        value = _value(d.text, name)
        if value != wanted:
            what = f"{name} is {value}, and only {wanted} is validated"
            yield Finding("warn", "G3", what, "compare it with the checkpoint's config.json", CUTEDSL)
    yield from _layers(d.text)
    layers, dense = _value(d.text, "num_hidden_layers"), _value(d.text, "first_k_dense_replace")
    if isinstance(layers, int) and isinstance(dense, int) and (layers - dense) % PARITIES == 1:
        what = f"{layers - dense} MoE layers: first and last would share a part of the tail's mailbox, which vLLM refuses"
        yield Finding("refuse", "vLLM", what, "no other model has this path", f"{CUTEDSL}/moe/tail_runtime.py")


def _layers(text: Mapping[str, Any]) -> Iterator[Finding]:
    """Which layers are MLA: config.json counts from 1."""
    attention = text.get("linear_attn_config") or {}
    if not isinstance(attention, Mapping):
        raise InputError("malformed model configuration: linear_attn_config is no object")
    kda, mla = attention.get("kda_layers"), attention.get("full_attn_layers")
    wanted = [[n + 1 for n in range(K3.layers) if K3.is_mla(n) is kind] for kind in (False, True)]
    if [kda, mla] != wanted:
        what = "linear_attn_config.kda_layers and full_attn_layers are not Kimi K3's, and only those are validated"
        yield Finding("warn", "G3", what, "compare them with the checkpoint's config.json", CUTEDSL)


def _value(text: Mapping[str, Any], name: str) -> Any:
    value: Any = text
    for key in name.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return DEFAULTS.get(name) if value is None else value
