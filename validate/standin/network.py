"""The layers of the stand-in, wired as Kimi K3's are (``reference.decode_step``)."""

from collections.abc import Callable, Sequence

from torch import Tensor

from validate.model.dimensions import Dimensions
from validate.standin.forms import Forms, Weights

# What a layer's attention makes of its input [rows, hidden]: rows of all heads [rows, H * D], before the o-projection.
Attention = Callable[[Forms, int, Weights, Tensor], Tensor]


def run(
    forms: Forms, layers: Sequence[Weights], ends: Weights, tokens: Tensor, attention: Attention, moe: Callable | None = None
) -> Tensor:
    """Normalised hidden rows [rows, hidden] of token ids [rows]. ``moe`` takes the place of ``Forms.moe``."""
    d = forms.d
    prefix = delta = ends["embedding"][tokens]
    blocks: list[Tensor] = []
    for n, weights in enumerate(layers):
        if n > 0:
            prefix = prefix + delta
        x = forms.attn_res((weights["attn_res_norm"], weights["attn_res_query"], weights["input_norm"]), prefix, blocks)
        writes = n % d.attn_res_block == 0
        if writes:
            blocks = [*blocks, prefix]
        delta = forms.o_proj(weights["o"], attention(forms, n, weights, x))
        prefix = delta if writes else prefix + delta
        x = forms.attn_res((weights["mlp_res_norm"], weights["mlp_res_query"], weights["post_norm"]), prefix, blocks)
        delta = forms.mlp(weights["gate_up"], weights["down"], x) if n == 0 else (moe or forms.moe)(weights, x)
    mixed = forms.attn_res((ends["res_norm"], ends["res_query"], ends["norm"]), prefix + delta, blocks)
    return mixed


def projected(forms: Forms, mla: bool, weights: Weights, x: Tensor) -> tuple[Tensor, ...]:
    """The parts of a layer's input projection: (qkv, gate, f_a, beta) of KDA, (q_a, kv, k_pe, gate) of MLA."""
    return forms.project(x, weights["in_proj"]).split(parts(forms.d, mla), -1)


def parts(d: Dimensions, mla: bool) -> list[int]:
    """Widths of the input projection's parts."""
    width = d.heads * d.head_dim
    if mla:
        return [d.q_lora, d.kv_lora, d.qk_rope, d.heads * d.v_head]
    return [3 * width, width, d.head_dim, d.heads]
