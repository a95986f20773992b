"""The attention layers' fused input projection: a GEMV of scalar products at one and two rows, then split-K by tcgen05.

On SM100 all sizes run through vLLM's own providers. The GEMV runs on SM90, too, where it is compiled here.
"""

from functools import cache
from typing import Any

import torch

from validate.model.call import Call
from validate.paths.emulated.input_projection import SKINNY_THREADS, SpecializedInputProjection
from validate.paths.vllm import binding
from validate.paths.vllm.adapter import Needs, Prepared, Whole
from validate.paths.vllm.entries import PROJECTION, PROVIDERS, SKINNY, imported
from validate.paths.vllm.source import Source

# Outputs of a block and unrolled steps of K by rows (runtime/providers.py ``SkinnyProjection``).
OUTPUTS, UNROLL = 4, {1: 1, 2: 2}


class SpecializedProjection(Whole):
    """``SkinnyProjection`` around ``PreparedProjection``, as ``Attention`` of runtime/providers.py binds them. SM100.

    The rows are those of the regime: what a CUDA graph was prepared for, padded rows after the live ones.
    """

    needs = Needs(capability=(10, 0))
    step = ("x",)

    def missing(self, call: Call, source: Source) -> str | None:
        """Other TP sizes."""
        return SpecializedInputProjection.missing(call)

    def prepare(self, call: Call, source: Source) -> Prepared:
        """``reference.input_projection.reference`` says what the tensors are."""
        x, weight, out = call.inputs["x"], call.inputs["weight"], call.outputs["projected"]
        policies = imported(source, PROVIDERS, "projection_policies")(call.shape["tp"], len(weight), [len(x)])
        split_k = imported(source, PROJECTION, "PreparedProjection")(weight, policies).prepare()
        projection = imported(source, PROVIDERS, "SkinnyProjection")(weight, split_k)

        def launch() -> None:
            projected = projection.run(x, out)
            if projected is not out:  # the GEMV allocates its result
                out.copy_(projected)

        return Prepared(launch)


class SpecializedSkinny(Whole):
    """``CuteSkinnyGemm`` as ``ShapeDynamicSkinnyGemm`` compiles it for ``SkinnyProjection``. SM90."""

    step = ("x",)

    def missing(self, call: Call, source: Source) -> str | None:
        """More than two rows."""
        reason = SpecializedInputProjection.missing(call)
        return reason or (None if call.shape["regime"] in SKINNY_THREADS else "its split-K GEMM needs SM100")

    def prepare(self, call: Call, source: Source) -> Prepared:
        """``reference.input_projection.reference`` says what the tensors are."""
        host = binding.host(source)
        x, weight, out = call.inputs["x"], call.inputs["weight"], call.outputs["projected"]
        code = _compiled(source, *out.shape, x.shape[1])

        def launch() -> None:
            # The third operand is the residual of other callers' kernels.
            views = (host.to_cute(tensor) for tensor in (x, weight, out, out))
            code(*views, host.stream(out.device))

        return Prepared(launch)


@cache
def _compiled(source: Source, rows: int, n: int, k: int) -> Any:
    host = binding.host(source)
    kernel = imported(source, SKINNY, "CuteSkinnyGemm")(
        element_type=binding.cutlass().BFloat16,
        num_rows=rows,
        block_size=SKINNY_THREADS[rows],
        outputs_per_block=OUTPUTS,
        vector_width=8,
        k_unroll=UNROLL[rows],
        has_residual=False,
        use_pdl=True,
        static_k=k,
    )
    out = host.fake((rows, n), None, torch.bfloat16)
    return binding.compiled(kernel, host.fake((rows, k)), host.fake((n, k)), out, out)
