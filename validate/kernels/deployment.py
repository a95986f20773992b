"""A deployment of Kimi K3, as far as vLLM's specialized decode looks at it: shapes, strides and flags, no weights.

``backbone`` has the attributes of vLLM 0.33.0's model that specialized_decode/runtime/decode.py and what it calls read.
Every tensor is a meta tensor: it has a shape, strides and a type, and no memory. Sizes are Kimi K3's, per TP rank.
"""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from validate.profiles import Profile

LAYERS, BLOCK = 93, 12  # decoder layers; layers of one AttnRes block
HIDDEN, HEADS, HEAD = 7168, 96, 128
Q_RANK, KV_RANK, ROPE = 1536, 512, 64
EXPERTS, LATENT, EXPERT, SHARED, DENSE = 896, 3584, 3072, 6144, 33792
VOCABULARY = 163840
PAGE = 64  # tokens of one page of the FP8 MLA cache, 576 bytes each
SLOTS = 16  # pages and state slots; a deployment has more, in the same strides
EPS = 1e-5


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
        return HEADS // self.tp


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
    layers = [_layer(deployment, index) for index in range(LAYERS)]
    drafts = deployment.q > 1
    return SimpleNamespace(
        config=SimpleNamespace(activation_situ_beta=4.0, activation_situ_linear_beta=25.0),
        layers=layers,
        start_layer=0,
        end_layer=LAYERS,
        embed_tokens=SimpleNamespace(weight=bf16(VOCABULARY // deployment.tp, HIDDEN), org_vocab_size=VOCABULARY),
        aux_hidden_state_layers=tuple(range(1, LAYERS + 1)) if drafts else (),
        num_attn_res_blocks=-(-LAYERS // BLOCK),
        output_attn_res_norm=_norm(HIDDEN),
        output_attn_res_proj=_linear(1, HIDDEN),
        norm=_norm(HIDDEN),
    )


def bf16(*shape: int) -> Tensor:
    """A bfloat16 tensor without memory."""
    return torch.empty(shape, dtype=torch.bfloat16, device="meta")


def _typed(dtype: torch.dtype, *shape: int) -> Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def _linear(rows: int, columns: int) -> SimpleNamespace:
    return SimpleNamespace(weight=bf16(rows, columns))


def _norm(width: int) -> SimpleNamespace:
    return SimpleNamespace(weight=bf16(width), variance_epsilon=EPS)


def _layer(deployment: Deployment, index: int) -> SimpleNamespace:
    mla = index % 4 == 3 or index == LAYERS - 1
    return SimpleNamespace(
        layer_idx=index,
        is_moe_layer=index > 0,
        is_block_write_layer=index % BLOCK == 0,
        block_write_idx=index // BLOCK,
        prev_valid_blocks=-(-index // BLOCK),
        self_attn=_mla(deployment, index) if mla else _kda(deployment),
        mlp=_moe(deployment) if index else _dense(deployment),
        self_attention_res_norm=_norm(HIDDEN),
        self_attention_res_proj=_linear(1, HIDDEN),
        input_layernorm=_norm(HIDDEN),
        mlp_res_norm=_norm(HIDDEN),
        mlp_res_proj=_linear(1, HIDDEN),
        post_attention_layernorm=_norm(HIDDEN),
    )


def _kda(deployment: Deployment) -> SimpleNamespace:
    heads = deployment.heads
    width = heads * HEAD
    pitch = 4 * width + HEAD + heads
    taps = 3 + deployment.q - 1  # drafts lengthen the convolution's state
    return SimpleNamespace(
        in_proj_qkvgfab=_linear(pitch + -pitch % 16, HIDDEN),
        A_log=_typed(torch.float32, heads),
        dt_bias=_typed(torch.float32, width),
        conv1d=SimpleNamespace(weight=bf16(3 * width, 1, 4), bias=None),
        f_b_proj=_linear(width, HEAD),
        o_norm=SimpleNamespace(weight=bf16(HEAD), eps=EPS),
        gate_lower_bound=-5.0,
        o_proj=_linear(HIDDEN, width),
        # vLLM's default layout of the convolution's state, VLLM_SSM_CONV_STATE_LAYOUT=SD: [slot, tap, channel].
        kv_cache=(bf16(SLOTS, taps, 3 * width), _typed(torch.float32, SLOTS, heads, HEAD, HEAD)),
    )


def _mla(deployment: Deployment, index: int) -> SimpleNamespace:
    heads = deployment.heads
    one = _typed(torch.float32, 1)
    return SimpleNamespace(
        fused_qkv_a_g_proj=_linear(Q_RANK + KV_RANK + ROPE + heads * HEAD, HIDDEN),
        num_local_heads=heads,
        W_UK_T=bf16(heads, HEAD, KV_RANK),
        W_UV=bf16(heads, HEAD, KV_RANK).transpose(1, 2),
        q_a_layernorm=_norm(Q_RANK),
        kv_a_layernorm=_norm(KV_RANK),
        q_b_proj=_linear(heads * (HEAD + ROPE), Q_RANK),
        o_proj=_linear(HIDDEN, heads * HEAD),
        _q_scale_inv=one,
        _k_scale_inv=one,
        _q_scale_float=1.0,
        _k_scale_float=1.0,
        scale=(HEAD + ROPE) ** -0.5,
        rms_norm_eps=EPS,
        layer_name=f"model.layers.{index}.self_attn",
        kv_cache=_typed(torch.uint8, SLOTS, PAGE, KV_RANK + ROPE),
    )


def _moe(deployment: Deployment) -> SimpleNamespace:
    tp, byte = deployment.tp, torch.uint8
    width = -(-EXPERT // tp // 128) * 128  # TP16 pads 192 to 256
    shared = SHARED // tp
    routed = SimpleNamespace(
        w13_weight=_typed(byte, EXPERTS, 2 * width, LATENT // 2),
        w13_weight_scale=_typed(byte, EXPERTS, 2 * width, LATENT // 32),
        w2_weight=_typed(byte, EXPERTS, LATENT, width // 2),
        w2_weight_scale=_typed(byte, EXPERTS, LATENT, width // 32),
    )
    tail = SimpleNamespace(contract=SimpleNamespace(tp_size=tp, rms_eps=EPS), rank=0)
    return SimpleNamespace(
        gate=SimpleNamespace(weight=bf16(EXPERTS, HIDDEN), e_score_correction_bias=_typed(torch.float32, EXPERTS)),
        routed_expert_down_proj=_linear(LATENT, HIDDEN),
        routed_expert_norm=_norm(LATENT),
        routed_expert_up_proj=_linear(HIDDEN, LATENT),
        shared_experts=SimpleNamespace(gate_up_proj=_linear(2 * shared, HIDDEN), down_proj=_linear(HIDDEN, shared)),
        experts=SimpleNamespace(routed_experts=routed, _k3_latent_moe_tail_op=tail),
        routed_scaling_factor=1.0,
        moe_renormalize=True,
    )


def _dense(deployment: Deployment) -> SimpleNamespace:
    width = DENSE // deployment.tp
    down: Any = _linear(HIDDEN, width)
    down.reduce_results = True
    activation = SimpleNamespace(beta=4.0, linear_beta=25.0)
    return SimpleNamespace(gate_up_proj=_linear(2 * width, HIDDEN), down_proj=down, act_fn=activation)
