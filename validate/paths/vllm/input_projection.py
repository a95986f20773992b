"""The attention layers' fused input projection: a GEMV of scalar products at one and two rows, then split-K by tcgen05.

On SM100 all sizes run through vLLM's own providers. The GEMV runs on SM90, too, where it is compiled here.
"""

from functools import cache
from typing import Any

import torch

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.paths.emulated.input_projection import SKINNY_THREADS, SpecializedInputProjection
from validate.paths.vllm import binding
from validate.paths.vllm.adapter import Needs, Prepared, Whole
from validate.paths.vllm.entries import LOW_LATENCY, PROJECTION, PROVIDERS, SKINNY, imported
from validate.paths.vllm.framework import compiled, cute_available, flashinfer_gemm, linear, linear_note, notes, stored
from validate.paths.vllm.source import Source

# Outputs of a block and unrolled steps of K by rows (runtime/providers.py ``SkinnyProjection``).
OUTPUTS, UNROLL = 4, {1: 1, 2: 2}

MLA_ROWS = K3.q_lora + K3.mla_row  # of an MLA projection before its output gate
SPLIT_ROWS = 14  # up to which vLLM splits KDA's projection at TP 8 (low_latency_gemm.py KDA_PROJECTION_OVERLAP_MAX_TOKENS)


class DefaultProjection(Whole):
    """The projections of models/kimi_k3/nvidia/kda.py and mla.py (vLLM 0.33.0) in a captured decode step.

    MLA's output gate has a GEMM of its own, beside the latents' (mla.py ``_forward_q_lora``). So have KDA's F_A and beta at TP
    8 up to 14 rows: ``run_kda_projection_overlap`` does not return F_A, but its product with F_B, here the identity. The
    streams on which vLLM runs the parts at once are one here.
    """

    step = ("x",)

    def missing(self, call: Call, source: Source) -> str | None:
        """Nothing."""
        return None

    def note(self, call: Call) -> str | None:
        """Where vLLM's own parts lack a kernel."""
        rows = call.shape["regime"]
        whole = "one GEMM; vLLM runs F_A and beta in another, whose kernels are not all there"
        return notes(linear_note(rows), whole if _wanted_split(call) and not _split(rows) else None)

    def prepare(self, call: Call, source: Source) -> Prepared:
        """``reference.input_projection.reference`` says what the tensors are."""
        x, weight, out = call.inputs["x"], call.inputs["weight"], call.outputs["projected"]
        if call.shape["mla"]:
            parts = weight[:MLA_ROWS], weight[MLA_ROWS:]
            return stored(out, lambda: torch.cat([linear(source, x, part) for part in parts], 1))
        if not (_wanted_split(call) and _split(len(x))):
            return stored(out, lambda: linear(source, x, weight))
        overlap = imported(source, LOW_LATENCY, "run_kda_projection_overlap")
        heads = K3.heads // call.shape["tp"]
        identity = torch.zeros(heads * K3.head_dim, K3.head_dim, dtype=weight.dtype, device=weight.device)
        identity.fill_diagonal_(1.0)

        def launch() -> None:
            qkv_gate, f_a, beta = overlap(x, weight, identity, None, (None, None))
            projected = torch.cat([qkv_gate, f_a[:, : K3.head_dim], beta], 1)
            out.zero_()  # the padding, which nobody reads
            out[:, : projected.shape[1]].copy_(projected)

        return Prepared(launch)


def _wanted_split(call: Call) -> bool:
    return call.shape["tp"] == 8 and not call.shape["mla"] and call.shape["regime"] <= SPLIT_ROWS


def _split(rows: int) -> bool:
    """Whether the kernels of both parts are there: a compiled one at one row, FlashInfer's on SM100 above two."""
    if not torch.cuda.is_available() or not cute_available():
        return False
    if rows == 1:
        return compiled("dsv3_fused_a_gemm")
    return rows == 2 or torch.cuda.get_device_capability()[0] == 9 or flashinfer_gemm()


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
