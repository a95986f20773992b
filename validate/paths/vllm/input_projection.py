"""The fused input projection of one and two rows by the specialized path's own kernel, a GEMV of scalar products.

From three rows on the path takes a split-K GEMM by tcgen05, which needs SM100.
"""

from functools import cache
from typing import Any

import torch

from validate.model.call import Call
from validate.paths.emulated.input_projection import SKINNY_THREADS, SpecializedInputProjection
from validate.paths.vllm import binding
from validate.paths.vllm.adapter import Prepared, Whole
from validate.paths.vllm.entries import SKINNY, imported
from validate.paths.vllm.source import Source

# Outputs of a block and unrolled steps of K by rows (runtime/providers.py ``SkinnyProjection``).
OUTPUTS, UNROLL = 4, {1: 1, 2: 2}


class SpecializedSkinny(Whole):
    """``CuteSkinnyGemm`` as ``ShapeDynamicSkinnyGemm`` compiles it for ``SkinnyProjection``. SM90 and later."""

    step = ("x",)

    def missing(self, call: Call, source: Source) -> str | None:
        """More than two rows."""
        reason = SpecializedInputProjection.missing(call)
        return reason or (
            None if call.shape["regime"] in SKINNY_THREADS else "no adapter yet for its split-K GEMM, which needs SM100"
        )

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
