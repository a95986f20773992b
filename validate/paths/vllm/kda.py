"""KDA by vLLM's own kernels.

Default: ``causal_conv1d_update``, the packed decode or verify recurrence and the gated norm, in Triton, as at TP 16;
specialized: ``PreparedKda``, one kernel in CuTe DSL. Both get the convolution's state in vLLM's default layout, SD: [slot, tap,
channel] in memory (vLLM 0.33.0, model_executor/layers/mamba/mamba_utils.py ``get_conv_state_layout``).
"""

from types import SimpleNamespace

import torch

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.paths import Broken
from validate.paths.vllm.adapter import Prepared, Whole, fewer_rows
from validate.paths.vllm.entries import CONVOLUTION, GATED_NORM, KDA, PREPARED_KDA, imported
from validate.paths.vllm.source import Source

# Thread blocks times tokens that the interpreter gets through in about three seconds: those of a verify step hold fewer
# rows of the state.
MOST_BLOCKS, MOST_VERIFY_BLOCKS = 400, 800


class DefaultKda(Whole):
    """``_forward`` of models/kimi_k3/nvidia/kda.py (vLLM 0.33.0) for a batch of decode or of verify requests.

    The gate's projection is a bf16 linear layer, hence torch's. vLLM gives padded slots the null slot; the convolution
    would follow a negative one out of the cache, so here, too, it gets the null slot. The recurrence gets them as they
    are. The attention output begins as zeros: the verify kernel leaves the later rows of a padded request as they were.
    """

    step = ("x", "gate", "f_a", "beta", "slots", "accepted")

    def missing(self, call: Call, source: Source) -> str | None:
        """Calls that would take the interpreter minutes."""
        if not source.interpreted:
            return None
        blocks, most = thread_blocks(call), MOST_BLOCKS if call.shape["q"] == 1 else MOST_VERIFY_BLOCKS
        return f"{blocks} thread blocks: Triton's interpreter is run up to {most}" if blocks > most else None

    def note(self, call: Call) -> str | None:
        """At 12 heads and more vLLM takes ``fused_kda_decode``, or FlashInfer's kernels, if they are there (kda.py)."""
        return "the Triton pair; at TP 8 vLLM takes a compiled kernel" if call.inputs["a_log"].numel() > 6 else None

    def prepare(self, call: Call, source: Source) -> Prepared:
        """``reference.kda.reference`` says what the tensors are."""
        i, q = call.inputs, call.shape["q"]
        convolve = imported(source, CONVOLUTION, "causal_conv1d_update")
        decode = imported(source, KDA, "fused_recurrent_kda_packed_decode")
        verify = imported(source, KDA, "fused_recurrent_kda")
        gated_norm = imported(source, GATED_NORM, "rms_norm_gated")
        heads, dim = i["a_log"].numel(), i["norm"].numel()
        conv = call.buffers["conv"].transpose(1, 2)
        taps_first = conv.contiguous()
        starts = torch.arange(0, len(i["x"]) + 1, q, dtype=torch.int32, device=i["x"].device)

        def launch() -> None:
            taps_first.copy_(conv)
            cache = taps_first.transpose(1, 2)
            attended = torch.zeros(1, len(i["x"]), heads, dim, dtype=i["x"].dtype, device=i["x"].device)
            convolved = torch.zeros_like(i["x"])
            taps = {
                "activation": "silu",
                "conv_state_indices": i["slots"][:, 0].clamp_min(0).contiguous(),
                "out": convolved,
            }
            recurrence = {
                "raw_g": torch.nn.functional.linear(i["f_a"], i["f_b"]).view(attended.shape),
                "raw_beta": i["beta"][None],
                "A_log": i["a_log"],
                "dt_bias": i["dt_bias"],
                "lower_bound": i["lower_bound"],
                "initial_state": call.buffers["state"],
                "out": attended,
            }
            if q == 1:
                convolve(i["x"], cache, i["conv_weight"], None, **taps)
                decode(mixed_qkv=convolved, state_indices=i["slots"][:, 0].contiguous(), **recurrence)
            else:
                taps |= {"num_accepted_tokens": i["accepted"], "query_start_loc": starts, "max_query_len": q}
                convolve(i["x"], cache, i["conv_weight"], None, **taps)
                query, key, value = (part.view(attended.shape) for part in convolved.split(heads * dim, -1))
                recurrence |= {"cu_seqlens": starts, "ssm_state_indices": i["slots"], "num_accepted_tokens": i["accepted"]}
                verify(q=query, k=key, v=value, **recurrence)
            conv.copy_(taps_first)
            gate = i["gate"].view(attended.shape[1:])
            normed = gated_norm(attended[0], gate, i["norm"], None, "sigmoid", eps=i["norm_eps"])
            call.outputs["out"].copy_(normed.view(len(i["x"]), -1))

        return Prepared(launch)


class SpecializedKda(Whole):
    """``PreparedKda`` as ``Attention`` of specialized_decode/runtime/providers.py prepares and calls it. SM90 and later."""

    step = DefaultKda.step

    def missing(self, call: Call, source: Source) -> str | None:
        """Other head counts than TP 8's and 16's, and kernels of fewer rows than the call."""
        if call.inputs["a_log"].numel() not in (12, 6):
            return "the specialized path needs 8 or 16 ranks"
        return fewer_rows(call)

    def prepare(self, call: Call, source: Source) -> Prepared:
        """``reference.kda.reference`` says what the tensors are. The packed row is [q k v, output gate, F_A, beta, padding]."""
        i, q, live, rows = call.inputs, call.shape["q"], call.shape["batch"], call.shape["regime"]
        heads, dim = i["a_log"].numel(), i["norm"].numel()
        pitch = K3.kda_projection_rows(K3.heads // heads)
        attention = SimpleNamespace(
            conv1d=SimpleNamespace(weight=i["conv_weight"][:, None], bias=None),
            dt_bias=i["dt_bias"],
            A_log=i["a_log"],
            f_b_proj=SimpleNamespace(weight=i["f_b"]),
            o_norm=SimpleNamespace(weight=i["norm"], eps=i["norm_eps"]),
            gate_lower_bound=i["lower_bound"],
        )
        policies = {rows: (pitch, gate_mode(heads, rows))} if q == 1 else {(rows // q, q): (pitch, int(heads == 12))}
        conv = call.buffers["conv"].transpose(1, 2)
        taps_first = conv.contiguous()
        caches = (taps_first, call.buffers["state"])
        kernel = imported(source, PREPARED_KDA, "PreparedKda")(attention, policies, False).prepare_caches(caches)
        # Rows that pad the step to its CUDA graph's hold anything; their slot is the null slot, one row accepted.
        projected = torch.full((rows, pitch), torch.nan, dtype=i["x"].dtype, device=i["x"].device)
        packed = projected[:live, : 4 * heads * dim + dim + heads]
        out = torch.full((rows, heads * dim), torch.nan, dtype=i["x"].dtype, device=i["x"].device)
        slots = torch.zeros(rows // q, q, dtype=torch.int32, device=i["x"].device)
        accepted = torch.ones_like(slots[:, 0])

        def launch() -> None:
            taps_first.copy_(conv)
            packed.copy_(torch.cat([i["x"], i["gate"], i["f_a"], i["beta"]], 1))
            slots[: live // q].copy_(i["slots"])
            accepted[: live // q].copy_(i["accepted"])
            if q == 1:
                kernel.run(projected, out, caches=caches, slots=slots[:, 0])
            else:
                kernel.run(projected, out, caches=caches, slots=slots, accepted=accepted)
            call.outputs["out"].copy_(out[:live])
            conv.copy_(taps_first)

        def collect() -> None:
            left = int((out[live:] != 0).any(1).sum())
            if left:
                raise Broken("out", "complete", left, f"{left} of {rows - live} padded rows are not zero")

        return Prepared(launch, collect=collect)


def gate_mode(heads: int, rows: int) -> int:
    """How F_B is multiplied: by the rows at TP 8, always alike at TP 16 (providers.py, ``Attention``)."""
    if heads == 6:
        return 0
    return 1 if rows == 1 else 2 if rows <= 8 else 0


def thread_blocks(call: Call) -> int:
    """Thread blocks of the recurrence times its tokens; fused_recurrent.py chooses the state rows of a block."""
    heads, dim, q = call.inputs["a_log"].numel(), call.inputs["norm"].numel(), call.shape["q"]
    sequences = len(call.inputs["slots"]) * heads
    rows = 32 if q == 1 else 4 if sequences <= 48 else 16 if 96 < sequences <= 192 else 8
    return sequences * q * -(-dim // rows)
