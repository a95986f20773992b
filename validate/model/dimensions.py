"""Kimi K3's dimensions, real and tiny.

Sources, all in vLLM 0.33.0: ``transformers_utils/configs/kimi_linear.py`` for the field names;
``models/kimi_k3/nvidia/specialized_decode`` for the sizes that its kernels fix (hidden 7168, 896 experts, top 16,
latent 3584, 96 heads of 128, per-rank projection rows 6288 and 3216, expert rows 768 and 512).
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Dimensions:
    """Sizes of one Kimi-K3-shaped model (elements) and its constants."""

    hidden: int
    layers: int
    heads: int
    head_dim: int  # KDA keys and values
    conv_width: int
    q_lora: int
    kv_lora: int
    qk_nope: int
    qk_rope: int  # never rotated in K3 (NoPE): 64 more query-key channels
    v_head: int
    experts: int
    top_k: int
    latent: int  # width of the routed experts' input and output
    moe_intermediate: int
    shared_intermediate: int  # both shared experts, fused
    dense_intermediate: int
    vocab: int
    attn_res_block: int  # layers between two saved AttnRes blocks
    rms_eps: float = 1e-5  # every layer norm
    l2_eps: float = 1e-6  # KDA query and key
    gate_lower_bound: float = -5.0
    situ_beta: float = 4.0
    situ_linear_beta: float = 25.0
    routed_scaling: float = 1.0

    @property
    def attn_res_blocks(self) -> int:
        """Number of saved AttnRes blocks at the end of the model."""
        return -(-self.layers // self.attn_res_block)

    @property
    def mla_row(self) -> int:
        """Elements of one MLA cache row: the latent and the unrotated key part."""
        return self.kv_lora + self.qk_rope

    @property
    def mla_scale(self) -> float:
        """Softmax scale, (qk_nope + qk_rope) ** -0.5."""
        return (self.qk_nope + self.qk_rope) ** -0.5

    def is_mla(self, layer: int) -> bool:
        """Every fourth layer, and the last one, is MLA; the others are KDA."""
        return layer % 4 == 3 or layer == self.layers - 1

    def kda_projection_rows(self, tp: int) -> int:
        """Rows of one rank's fused KDA input projection: q, k, v, output gate, F_A (replicated), beta, padding to 16."""
        heads = self.heads // tp
        rows = 4 * heads * self.head_dim + self.head_dim + heads
        return -(-rows // 16) * 16

    def mla_projection_rows(self, tp: int) -> int:
        """Rows of one rank's fused MLA input projection: query latent, key-value latent, key rest, output gate."""
        return self.q_lora + self.mla_row + self.heads // tp * self.v_head


K3 = Dimensions(
    hidden=7168,
    layers=93,
    heads=96,
    head_dim=128,
    conv_width=4,
    q_lora=1536,
    kv_lora=512,
    qk_nope=128,
    qk_rope=64,
    v_head=128,
    experts=896,
    top_k=16,
    latent=3584,
    moe_intermediate=3072,
    shared_intermediate=6144,
    dense_intermediate=33792,
    vocab=163840,
    attn_res_block=12,
)

# A small model that has every kind of layer: dense and MoE, KDA and MLA, a block write of each. Its widths are multiples of
# what the specialized kernels divide by: TP 8, 256-wide stages, 64-wide tiles; the query latent has its real width.
TINY = Dimensions(
    hidden=1024,
    layers=4,
    heads=16,
    head_dim=128,
    conv_width=4,
    q_lora=1536,
    kv_lora=512,
    qk_nope=128,
    qk_rope=64,
    v_head=128,
    experts=8,
    top_k=4,
    latent=1792,
    moe_intermediate=512,
    shared_intermediate=512,
    dense_intermediate=1024,
    vocab=512,
    attn_res_block=3,
)
