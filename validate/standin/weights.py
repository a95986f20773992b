"""The stand-in's weights: names, shapes, first values, and the file that holds them."""

import math
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from validate.model.dimensions import Dimensions
from validate.standin.forms import Weights
from validate.standin.network import parts

# A few million parameters with every kind of layer: KDA with a dense MLP, KDA and MLA with experts, three AttnRes blocks.
PRACTICE = Dimensions(
    hidden=256,
    layers=6,
    heads=4,
    head_dim=64,
    conv_width=4,
    q_lora=128,
    kv_lora=128,
    qk_nope=48,
    qk_rope=16,
    v_head=64,
    experts=16,
    top_k=4,
    latent=128,
    moe_intermediate=64,
    shared_intermediate=256,
    dense_intermediate=512,
    vocab=768,
    attn_res_block=2,
)


def shapes(d: Dimensions, layer: int) -> dict[str, tuple[int, ...]]:
    """Shapes of a layer's weights by name."""
    mla, width = d.is_mla(layer), d.heads * d.head_dim
    found: dict[str, tuple[int, ...]] = dict.fromkeys(
        ("attn_res_norm", "attn_res_query", "input_norm", "mlp_res_norm", "mlp_res_query", "post_norm"), (d.hidden,)
    )
    found["in_proj"] = (sum(parts(d, mla)), d.hidden)
    if mla:
        found |= {"q_norm": (d.q_lora,), "kv_norm": (d.kv_lora,), "q_b": (d.heads * (d.qk_nope + d.qk_rope), d.q_lora)}
        found |= {"w_uk": (d.heads, d.qk_nope, d.kv_lora), "w_uv": (d.heads, d.kv_lora, d.v_head)}
        found["o"] = (d.hidden, d.heads * d.v_head)
    else:
        found |= {"f_b": (width, d.head_dim), "conv": (3 * width, d.conv_width), "a_log": (d.heads,), "dt_bias": (width,)}
        found |= {"o_norm": (d.head_dim,), "o": (d.hidden, width)}
    if layer == 0:
        return found | {"gate_up": (2 * d.dense_intermediate, d.hidden), "down": (d.hidden, d.dense_intermediate)}
    found |= {"router": (d.experts, d.hidden), "bias": (d.experts,), "latent_norm": (d.latent,)}
    found |= {"latent_down": (d.latent, d.hidden), "latent_up": (d.hidden, d.latent)}
    found |= {"w13": (d.experts, 2 * d.moe_intermediate, d.latent), "w2": (d.experts, d.latent, d.moe_intermediate)}
    shared = d.shared_intermediate
    return found | {"shared_gate_up": (2 * shared, d.hidden), "shared_down": (d.hidden, shared)}


def end_shapes(d: Dimensions) -> dict[str, tuple[int, ...]]:
    """Shapes of what comes before the first and after the last layer."""
    ends: dict[str, tuple[int, ...]] = dict.fromkeys(("res_norm", "res_query", "norm"), (d.hidden,))
    return ends | {"embedding": (d.vocab, d.hidden), "head": (d.vocab, d.hidden)}


def names(d: Dimensions) -> dict[str, tuple[int, ...]]:
    """All shapes by their names in the file: ``layers.<n>.<name>``, and the ends' own names."""
    layers = {f"layers.{n}.{name}": shape for n in range(d.layers) for name, shape in shapes(d, n).items()}
    return layers | end_shapes(d)


def first(d: Dimensions, seed: int) -> Weights:
    """fp32 first values by name: norms 1, queries of AttnRes and the expert bias 0, linear layers of unit output."""
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for name, shape in names(d).items():
        short = name.rpartition(".")[2]
        if short.endswith("norm"):
            found[name] = torch.ones(shape)
        elif short in ("bias", "attn_res_query", "mlp_res_query", "res_query"):
            found[name] = torch.zeros(shape)
        elif short == "a_log":
            found[name] = torch.linspace(-1.0, 1.0, shape[0])
        elif short == "dt_bias":  # from heads that forget at once to heads that keep: sigmoid(-5) * -5 is -0.03
            found[name] = torch.empty(shape).uniform_(-5.0, 0.0, generator=generator)
        elif short == "embedding":
            found[name] = torch.randn(shape, generator=generator)
        else:
            inner = shape[1] if short == "w_uv" else shape[-1]
            scale = 1 / math.sqrt(inner)
            if short in ("o", "down", "w2", "shared_down", "latent_up"):
                scale /= math.sqrt(2 * d.layers)
            found[name] = torch.randn(shape, generator=generator) * scale
    return found


def by_layer(d: Dimensions, flat: Weights) -> tuple[list[Weights], Weights]:
    """The layers' weights and the ends', from weights by file name."""
    layers = [{name: flat[f"layers.{n}.{name}"] for name in shapes(d, n)} for n in range(d.layers)]
    return layers, {name: flat[name] for name in end_shapes(d)}


def save(d: Dimensions, flat: Weights, folder: Path) -> None:
    """``model.safetensors`` in bf16 and the part of ``config.json`` that vLLM needs."""
    import json

    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: flat[name].to(torch.bfloat16).contiguous() for name in names(d)}, folder / "model.safetensors")
    config = {"architectures": ["K3StandInForCausalLM"], "model_type": "k3_standin", "dtype": "bfloat16", **asdict(d)}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def load(folder: Path) -> Weights:
    """bf16 weights by file name."""
    from safetensors.torch import load_file

    found: dict[str, Tensor] = load_file(folder / "model.safetensors")
    return found
