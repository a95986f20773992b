"""A deployment of Kimi K3, as far as vLLM's specialized decode looks at it: shapes, strides and flags, no weights.

``backbone`` has the attributes of vLLM 0.33.0's model that specialized_decode/runtime/decode.py and what it calls read.
Every tensor is a meta tensor: it has a shape, strides and a type, and no memory. Sizes are Kimi K3's, per TP rank.
"""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from validate.model.dimensions import K3
from validate.profiles import Profile

PAGE = 64  # tokens of one page of the FP8 MLA cache, 576 bytes each
SLOTS = 16  # pages and state slots; a deployment has more, in the same strides


@dataclass(frozen=True)
class Deployment:
    """What selects the kernels: TP size, rows a request in verify steps (1: no drafts), decode context parallelism.

    ``batches`` are the captured batch sizes in rows; vLLM adds its own (specialized_decode/runtime/providers.py, BATCHES).
    """

    tp: int
    q: int
    dcp: bool
    batches: tuple[int, ...]

    @property
    def name(self) -> str:
        """As it is reported, ``tp8-q4-dcp``."""
        return f"tp{self.tp}-q{self.q}" + ("-dcp" if self.dcp else "")

    @property
    def heads(self) -> int:
        """Attention heads of one rank."""
        return K3.heads // self.tp


def deployments(profile: Profile) -> list[Deployment]:
    """Those of a profile: each TP size that has a specialized path, with and without drafts, with and without DCP."""
    return [
        Deployment(tp, q, dcp, profile.batches)
        for tp in profile.tp
        if tp in (8, 16)
        for q in (1, *profile.queries)
        for dcp in (False, True)
    ]


def config(deployment: Deployment) -> SimpleNamespace:
    """What vLLM's DecodeConfig holds (specialized_decode/runtime/__init__.py)."""
    return SimpleNamespace(
        max_context=1 << 20,
        mla_core="auto",
        dcp=deployment.tp if deployment.dcp else 1,
        q=deployment.q,
        capture_sizes=deployment.batches,
    )


def backbone(deployment: Deployment) -> SimpleNamespace:
    """The model. Where a checkpoint decides (which layers feed the drafter), every possible kernel is asked for."""
    layers = [_layer(deployment, index) for index in range(K3.layers)]
    drafts = deployment.q > 1
    return SimpleNamespace(
        config=SimpleNamespace(activation_situ_beta=K3.situ_beta, activation_situ_linear_beta=K3.situ_linear_beta),
        layers=layers,
        start_layer=0,
        end_layer=K3.layers,
        embed_tokens=SimpleNamespace(weight=bf16(K3.vocab // deployment.tp, K3.hidden), org_vocab_size=K3.vocab),
        aux_hidden_state_layers=tuple(range(1, K3.layers + 1)) if drafts else (),
        num_attn_res_blocks=K3.attn_res_blocks,
        output_attn_res_norm=_norm(K3.hidden),
        output_attn_res_proj=_linear(1, K3.hidden),
        norm=_norm(K3.hidden),
    )


def bf16(*shape: int) -> Tensor:
    """A bfloat16 tensor without memory."""
    return torch.empty(shape, dtype=torch.bfloat16, device="meta")


def _typed(dtype: torch.dtype, *shape: int) -> Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def _linear(rows: int, columns: int) -> SimpleNamespace:
    return SimpleNamespace(weight=bf16(rows, columns))


def _norm(width: int) -> SimpleNamespace:
    return SimpleNamespace(weight=bf16(width), variance_epsilon=K3.rms_eps)


def _layer(deployment: Deployment, index: int) -> SimpleNamespace:
    return SimpleNamespace(
        layer_idx=index,
        is_moe_layer=index > 0,
        is_block_write_layer=index % K3.attn_res_block == 0,
        block_write_idx=index // K3.attn_res_block,
        prev_valid_blocks=-(-index // K3.attn_res_block),
        self_attn=_mla(deployment, index) if K3.is_mla(index) else _kda(deployment),
        mlp=_moe(deployment) if index else _dense(deployment),
        self_attention_res_norm=_norm(K3.hidden),
        self_attention_res_proj=_linear(1, K3.hidden),
        input_layernorm=_norm(K3.hidden),
        mlp_res_norm=_norm(K3.hidden),
        mlp_res_proj=_linear(1, K3.hidden),
        post_attention_layernorm=_norm(K3.hidden),
    )


def _kda(deployment: Deployment) -> SimpleNamespace:
    heads = deployment.heads
    width = heads * K3.head_dim
    taps = K3.conv_width - 1 + deployment.q - 1  # drafts lengthen the convolution's state
    return SimpleNamespace(
        in_proj_qkvgfab=_linear(K3.kda_projection_rows(deployment.tp), K3.hidden),
        A_log=_typed(torch.float32, heads),
        dt_bias=_typed(torch.float32, width),
        conv1d=SimpleNamespace(weight=bf16(3 * width, 1, K3.conv_width), bias=None),
        f_b_proj=_linear(width, K3.head_dim),
        o_norm=SimpleNamespace(weight=bf16(K3.head_dim), eps=K3.rms_eps),
        gate_lower_bound=K3.gate_lower_bound,
        o_proj=_linear(K3.hidden, width),
        # vLLM's default layout of the convolution's state, VLLM_SSM_CONV_STATE_LAYOUT=SD: [slot, tap, channel].
        kv_cache=(bf16(SLOTS, taps, 3 * width), _typed(torch.float32, SLOTS, heads, K3.head_dim, K3.head_dim)),
    )


def _mla(deployment: Deployment, index: int) -> SimpleNamespace:
    heads = deployment.heads
    one = _typed(torch.float32, 1)
    return SimpleNamespace(
        fused_qkv_a_g_proj=_linear(K3.mla_projection_rows(deployment.tp), K3.hidden),
        num_local_heads=heads,
        W_UK_T=bf16(heads, K3.qk_nope, K3.kv_lora),
        W_UV=bf16(heads, K3.v_head, K3.kv_lora).transpose(1, 2),
        q_a_layernorm=_norm(K3.q_lora),
        kv_a_layernorm=_norm(K3.kv_lora),
        q_b_proj=_linear(heads * (K3.qk_nope + K3.qk_rope), K3.q_lora),
        o_proj=_linear(K3.hidden, heads * K3.v_head),
        _q_scale_inv=one,
        _k_scale_inv=one,
        _q_scale_float=1.0,
        _k_scale_float=1.0,
        scale=K3.mla_scale,
        rms_norm_eps=K3.rms_eps,
        layer_name=f"model.layers.{index}.self_attn",
        kv_cache=_typed(torch.uint8, SLOTS, PAGE, K3.mla_row),
    )


def _moe(deployment: Deployment) -> SimpleNamespace:
    tp, byte = deployment.tp, torch.uint8
    width = -(-K3.moe_intermediate // tp // 128) * 128  # TP16 pads 192 to 256
    shared = K3.shared_intermediate // tp
    routed = SimpleNamespace(
        w13_weight=_typed(byte, K3.experts, 2 * width, K3.latent // 2),
        w13_weight_scale=_typed(byte, K3.experts, 2 * width, K3.latent // 32),
        w2_weight=_typed(byte, K3.experts, K3.latent, width // 2),
        w2_weight_scale=_typed(byte, K3.experts, K3.latent, width // 32),
    )
    tail = SimpleNamespace(contract=SimpleNamespace(tp_size=tp, rms_eps=K3.rms_eps), rank=0)
    return SimpleNamespace(
        gate=SimpleNamespace(weight=bf16(K3.experts, K3.hidden), e_score_correction_bias=_typed(torch.float32, K3.experts)),
        routed_expert_down_proj=_linear(K3.latent, K3.hidden),
        routed_expert_norm=_norm(K3.latent),
        routed_expert_up_proj=_linear(K3.hidden, K3.latent),
        shared_experts=SimpleNamespace(gate_up_proj=_linear(2 * shared, K3.hidden), down_proj=_linear(K3.hidden, shared)),
        experts=SimpleNamespace(routed_experts=routed, _k3_latent_moe_tail_op=tail),
        routed_scaling_factor=K3.routed_scaling,
        moe_renormalize=True,
    )


def _dense(deployment: Deployment) -> SimpleNamespace:
    width = K3.dense_intermediate // deployment.tp
    down: Any = _linear(K3.hidden, width)
    down.reduce_results = True
    activation = SimpleNamespace(beta=K3.situ_beta, linear_beta=K3.situ_linear_beta)
    return SimpleNamespace(gate_up_proj=_linear(2 * width, K3.hidden), down_proj=down, act_fn=activation)
