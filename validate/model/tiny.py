"""Weights of a whole Kimi-K3-shaped model, small enough to be run for several tokens in float64.

Full tensors, as in a checkpoint; whoever runs the model cuts them into the shards of the ranks. bf16 unless said otherwise.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from validate.model.dimensions import Dimensions
from validate.model.draws import Draws
from validate.model.synthetic import linear_weight, norm_weight

Weights = dict[str, Tensor]


@dataclass(frozen=True)
class Model:
    """``layers[n]`` holds one layer's tensors by name; ``ends`` those before the first and after the last layer."""

    dimensions: Dimensions
    layers: tuple[Weights, ...]
    ends: Weights


def model(dimensions: Dimensions, seed: int) -> Model:
    """The model of that seed, the same on every machine."""
    draws = Draws("tiny", seed)
    d = dimensions
    layers = tuple(
        {
            **_residual(draws, d),
            **(_mla(draws, d) if d.is_mla(n) else _kda(draws, d)),
            **(_dense(draws, d) if n == 0 else _moe(draws, d)),
        }
        for n in range(d.layers)
    )
    ends = {
        "embedding": draws.bell((d.vocab, d.hidden)).bfloat16(),
        "res_norm": norm_weight(draws, d.hidden),
        "res_query": _query(draws, d.hidden),
        "norm": norm_weight(draws, d.hidden),
        "head": linear_weight(draws, d.vocab, d.hidden, 2.0),
    }
    return Model(d, layers, ends)


def _query(draws: Draws, hidden: int) -> Tensor:
    """AttnRes's query: logits of unit order over a normalised row, so that several blocks share the softmax."""
    return draws.bell((hidden,), hidden**-0.5).bfloat16()


def _residual(draws: Draws, d: Dimensions) -> Weights:
    return {
        "attn_res_norm": norm_weight(draws, d.hidden),
        "attn_res_query": _query(draws, d.hidden),
        "input_norm": norm_weight(draws, d.hidden),
        "mlp_res_norm": norm_weight(draws, d.hidden),
        "mlp_res_query": _query(draws, d.hidden),
        "post_norm": norm_weight(draws, d.hidden),
    }


def _kda(draws: Draws, d: Dimensions) -> Weights:
    width = d.heads * d.head_dim
    return {
        "q": linear_weight(draws, width, d.hidden),
        "k": linear_weight(draws, width, d.hidden),
        "v": linear_weight(draws, width, d.hidden),
        "gate": linear_weight(draws, width, d.hidden),
        "f_a": linear_weight(draws, d.head_dim, d.hidden),
        "beta": linear_weight(draws, d.heads, d.hidden),
        "f_b": linear_weight(draws, width, d.head_dim),
        "conv": draws.bell((3 * width, d.conv_width), 0.5).bfloat16().float(),  # fp32 parameter with bf16 values
        "a_log": draws.bell((d.heads,), 0.5).float(),
        "dt_bias": draws.bell((width,)).float(),
        "o_norm": norm_weight(draws, d.head_dim).float(),
        "o": linear_weight(draws, d.hidden, width),
    }


def _mla(draws: Draws, d: Dimensions) -> Weights:
    return {
        "q_a": linear_weight(draws, d.q_lora, d.hidden),
        "kv": linear_weight(draws, d.kv_lora, d.hidden),
        "k_pe": linear_weight(draws, d.qk_rope, d.hidden),
        "gate": linear_weight(draws, d.heads * d.v_head, d.hidden),
        "q_norm": norm_weight(draws, d.q_lora),
        "kv_norm": norm_weight(draws, d.kv_lora),
        "q_b": linear_weight(draws, d.heads * (d.qk_nope + d.qk_rope), d.q_lora, 2.0),
        "w_uk": draws.bell((d.heads, d.qk_nope, d.kv_lora), d.kv_lora**-0.5).bfloat16(),
        "w_uv": draws.bell((d.heads, d.kv_lora, d.v_head), d.kv_lora**-0.5).bfloat16(),
        "o": linear_weight(draws, d.hidden, d.heads * d.v_head),
    }


def _dense(draws: Draws, d: Dimensions) -> Weights:
    return {
        "gate_proj": linear_weight(draws, d.dense_intermediate, d.hidden),
        "up_proj": linear_weight(draws, d.dense_intermediate, d.hidden),
        "down_proj": linear_weight(draws, d.hidden, d.dense_intermediate),
    }


def _moe(draws: Draws, d: Dimensions) -> Weights:
    """Experts in MXFP4 as packed bytes and E8M0 scales: any byte is a legal pair of E2M1 numbers."""
    weights = {
        "router": linear_weight(draws, d.experts, d.hidden),
        "bias": draws.bell((d.experts,), 0.05).float(),
        "latent_down": linear_weight(draws, d.latent, d.hidden),
        "latent_norm": norm_weight(draws, d.latent),
        "latent_up": linear_weight(draws, d.hidden, d.latent),
        "shared_gate": linear_weight(draws, d.shared_intermediate, d.hidden),
        "shared_up": linear_weight(draws, d.shared_intermediate, d.hidden),
        "shared_down": linear_weight(draws, d.hidden, d.shared_intermediate),
    }
    for name, rows, columns in (
        ("expert_gate", d.moe_intermediate, d.latent),
        ("expert_up", d.moe_intermediate, d.latent),
        ("expert_down", d.latent, d.moe_intermediate),
    ):
        weights[name] = draws.bytes((d.experts, rows, columns // 2))
        # E2M1 values of random bytes have a root mean square of about 3: 2**-k brings a row's dot product to unit order.
        exponent = 127 - round(1.6 + 0.5 * math.log2(columns))
        weights[f"{name}_scale"] = draws.integers((d.experts, rows, columns // 32), exponent - 1, exponent + 2).to(torch.uint8)
    return weights
