"""``emulated-default`` and ``emulated-specialized``: torch programs on a CPU, with each path's own rounding points,
accumulation dtype and order of reduction.
"""

from collections.abc import Callable, Mapping

from validate.model.call import Call
from validate.paths.emulated import (
    attn_res,
    decode_step,
    dense_mlp,
    draft_context,
    embedding,
    experts,
    final_norm,
    input_projection,
    kda,
    latent_down,
    logits,
    mla,
    moe_tail,
    o_proj,
    recover_ssm,
    router,
    shared_experts,
)
from validate.stages import DEFAULT_ONLY

Stage = Callable[[], Callable[[Call], None]]  # a class whose instances run one call

DEFAULT: Mapping[str, Stage] = {
    "router": router.DefaultRouter,
    "latent_down": latent_down.DefaultLatentDown,
    "experts": experts.DefaultExperts,
    "attn_res": attn_res.DefaultAttnRes,
    "kda": kda.DefaultKda,
    "recover_ssm": recover_ssm.DefaultRecoverSsm,
    "mla": mla.DefaultMla,
    "o_proj": o_proj.DefaultOproj,
    "moe_tail": moe_tail.DefaultMoeTail,
    "shared_experts": shared_experts.DefaultSharedExperts,
    "dense_mlp": dense_mlp.DefaultDenseMlp,
    "final_norm": final_norm.DefaultFinalNorm,
    "input_projection": input_projection.DefaultInputProjection,
    "embedding": embedding.DefaultEmbedding,
    "logits": logits.DefaultLogits,
    "draft_context": draft_context.DraftContext,
}
SPECIALIZED: Mapping[str, Stage] = {
    "router": router.SpecializedRouter,
    "latent_down": latent_down.SpecializedLatentDown,
    "experts": experts.SpecializedExperts,
    "attn_res": attn_res.SpecializedAttnRes,
    "kda": kda.SpecializedKda,
    "mla": mla.SpecializedMla,
    "o_proj": o_proj.SpecializedOproj,
    "moe_tail": moe_tail.SpecializedMoeTail,
    "shared_experts": shared_experts.SpecializedSharedExperts,
    "dense_mlp": dense_mlp.SpecializedDenseMlp,
    "final_norm": final_norm.SpecializedFinalNorm,
    "input_projection": input_projection.SpecializedInputProjection,
    "embedding": embedding.SpecializedEmbedding,
    "logits": logits.SpecializedLogits,
    "draft_context": draft_context.DraftContext,
}


class Emulated:
    """One path's stages. ``planted`` replaces some of them by faulty ones; ``name`` then says which fault it is."""

    def __init__(self, path: str, planted: Mapping[str, Stage] | None = None, name: str | None = None) -> None:
        self.path = path
        self.name = name or f"emulated-{path}"
        whole = decode_step.DefaultDecodeStep if path == "default" else decode_step.SpecializedDecodeStep
        self.stages: dict[str, Stage] = {
            **(DEFAULT if path == "default" else SPECIALIZED),
            "decode_step": whole,
            **(planted or {}),
        }

    def missing(self, call: Call) -> str | None:
        """Why the stage is not emulated at this size: a class may say so itself; None if it is."""
        if call.stage not in self.stages:
            return DEFAULT_ONLY.get(call.stage, f"{call.stage} is not emulated")
        reason = getattr(self.stages[call.stage], "missing", None)
        return reason(call) if reason else None

    def note(self, call: Call) -> str | None:
        """Nothing: it emulates whole stages."""
        return None

    def ranks(self, call: Call) -> int:
        """One process computes all ranks."""
        return 1

    def run(self, call: Call) -> None:
        """Runs the stage."""
        self.stages[call.stage]()(call)

    def again(self, call: Call) -> None:
        """Runs it once more."""
        self.run(call)
