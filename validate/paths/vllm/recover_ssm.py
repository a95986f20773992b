"""RecoverSSM by vLLM's own kernels: a layer's verify step, then the commit of the accepted tokens.

As ``_recoverssm_verify`` of models/kimi_k3/nvidia/kda.py and ``commit_recoverssm_state`` of kda_metadata.py do it for one layer
(vLLM 0.33.0): the CuTe kernels where ``can_use_cute_recoverssm`` allows them (SM100, a state in bf16), elsewhere the Triton
kernels.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from validate.model.call import Call
from validate.paths import Broken
from validate.paths.vllm.adapter import Needs, Prepared, Whole
from validate.paths.vllm.entries import CONVOLUTION, CUTE_RECOVER_SSM, GATED_NORM, RECOVER_SSM, imported
from validate.paths.vllm.source import Source

# Thread blocks times tokens, of the verify step and of the commit, that the interpreter gets through in some four seconds.
MOST_BLOCKS = 800
ROWS = 32  # of a head's state that a thread block of both Triton kernels holds (recoverssm.py, ``block_v``)

Verify = Callable[[Tensor, Tensor], bool]  # from the raw gate, into the attention output; whether it ran


class TritonRecoverSsm(Whole):
    """``causal_conv1d_update``, ``kda_recoverssm_verify``, the gated norm and ``KDARecoverSSMCommitContext.commit``.

    As in ``kda.DefaultKda``, a padded request's slot is the null slot where the convolution is given it.
    """

    step = ("x", "gate", "f_a", "beta", "slots", "starts", "accepted", "indices", "table", "computed")
    backend = "triton"
    launches_triton = True

    def missing(self, call: Call, source: Source) -> str | None:
        """Calls that would take the interpreter minutes."""
        if not source.interpreted:
            return None
        blocks = thread_blocks(call)
        return f"{blocks} thread blocks: Triton's interpreter is run up to {MOST_BLOCKS}" if blocks > MOST_BLOCKS else None

    def prepare(self, call: Call, source: Source) -> Prepared:
        """``reference.recover_ssm.reference`` says what the tensors are."""
        i, heads, dim = call.inputs, call.inputs["a_log"].numel(), call.inputs["norm"].numel()
        conv, state = call.buffers["conv"], call.buffers["state"]
        # vLLM's layouts of the convolution's state: [slot, tap, channel] in memory, or the call's own.
        stored = conv if call.shape["channels_first"] else conv.transpose(1, 2).contiguous()
        count, q = len(i["slots"]), call.shape["q"]
        records: Any = imported(source, RECOVER_SSM, "KDARecoverSSMRecords")
        records = records.allocate(count, heads, q, dim, i["x"].dtype, i["x"].device)
        layer = SimpleNamespace(
            # The commit's context takes the state in its default layout, and turns it over.
            kv_cache=(stored.transpose(1, 2) if call.shape["channels_first"] else stored, state),
            recoverssm_records=records,
            A_log=i["a_log"],
            dt_bias=i["dt_bias"],
            local_num_heads=heads,
            head_dim=dim,
            gate_lower_bound=i["lower_bound"],
        )
        context: Any = imported(source, RECOVER_SSM, "KDARecoverSSMCommitContext")
        context = context.create([layer], spec_query_len=q, max_num_reqs=count, backend=self.backend)
        gated_norm = imported(source, GATED_NORM, "rms_norm_gated")
        verify = self.verify(call, source, records, stored)
        accepted = {"request_indices": i["indices"], "block_table": i["table"], "num_computed_tokens": i["computed"]}

        def launch() -> None:
            if stored is not conv:
                stored.copy_(conv.transpose(1, 2))
            raw_gate = torch.nn.functional.linear(i["f_a"], i["f_b"])
            attended = torch.full_like(raw_gate, torch.nan)
            if not verify(raw_gate, attended):
                raise Broken("out", "complete", 1, "the CuTe verify declines the call's memory: vLLM would take the Triton one")
            by_head = attended.unflatten(-1, (heads, dim))
            normed = gated_norm(by_head, i["gate"].view(by_head.shape), i["norm"], None, "sigmoid", eps=i["norm_eps"])
            call.outputs["out"].copy_(normed.flatten(1))
            context.commit(i["accepted"], i["slots"], i["starts"], **accepted, mamba_block_size=i["block"])
            if stored is not conv:
                conv.copy_(stored.transpose(1, 2))

        return Prepared(launch)

    def verify(self, call: Call, source: Source, records: Any, stored: Tensor) -> Verify:
        """The verify step on the convolution's state as it is ``stored``."""
        i, heads, dim, q = call.inputs, call.inputs["a_log"].numel(), call.inputs["norm"].numel(), call.shape["q"]
        convolve = imported(source, CONVOLUTION, "causal_conv1d_update")
        recurrence = imported(source, RECOVER_SSM, "kda_recoverssm_verify")
        cache = stored if call.shape["channels_first"] else stored.transpose(1, 2)
        neutral = torch.ones_like(i["slots"])  # the commit leaves the taps in the first columns (kda_metadata.py)

        def run(raw_gate: Tensor, attended: Tensor) -> bool:
            convolved = convolve(
                i["x"],
                cache,
                i["conv_weight"],
                None,
                activation="silu",
                conv_state_indices=i["slots"].clamp_min(0),
                num_accepted_tokens=neutral,
                query_start_loc=i["starts"],
                max_query_len=q,
                out=torch.zeros_like(i["x"]),
            )
            by_head = (1, len(i["x"]), heads, dim)
            query, key, value = (part.unflatten(-1, (heads, dim))[None] for part in convolved.split(heads * dim, -1))
            recurrence(
                query,
                key,
                value,
                raw_gate.view(by_head),
                i["beta"][None],
                i["a_log"],
                i["dt_bias"],
                i["lower_bound"],
                call.buffers["state"],
                records,
                i["starts"],
                i["slots"],
                q,
                attended.view(by_head),
            )
            return True

        return run


class CuteRecoverSsm(TritonRecoverSsm):
    """``CuteRecoverSSMVerify``, with the convolution inside, and ``cute_recoverssm_commit``, by the same commit."""

    needs = Needs(capability=(10, 0))
    backend = "cute"
    launches_triton = False  # but what stands in for it: kernels/driverless.py

    def missing(self, call: Call, source: Source) -> str | None:
        """A state in fp32, which vLLM gives to its Triton kernels, and the interpreter, which is Triton's."""
        if source.interpreted:
            return super().missing(call, source) or "CuTe kernels are not interpreted"
        return None if call.buffers["state"].dtype is torch.bfloat16 else "vLLM's CuTe kernels take a state in bf16"

    def verify(self, call: Call, source: Source, records: Any, stored: Tensor) -> Verify:
        """All in one kernel: with the taps' channels first the warp-specialized one."""
        i, q = call.inputs, call.shape["q"]
        heads, device = i["a_log"].numel(), i["x"].device
        kernel = imported(source, CUTE_RECOVER_SSM, "CuteRecoverSSMVerify")(
            num_heads=heads,
            window=q,
            conv_dim_first=bool(call.shape["channels_first"]),
            conv_weight_dtype=i["conv_weight"].dtype,
            device=device,
        )
        kernel.compile()
        neutral = torch.ones_like(i["slots"])

        def run(raw_gate: Tensor, attended: Tensor) -> bool:
            return kernel(
                mixed_qkv=i["x"],
                raw_gate=raw_gate,
                raw_beta=i["beta"],
                A_log=i["a_log"],
                dt_bias=i["dt_bias"],
                lower_bound=i["lower_bound"],
                state=call.buffers["state"],
                records=records,
                query_start_loc=i["starts"],
                state_indices=i["slots"],
                num_accepted_tokens=neutral,
                conv_state=stored,
                conv_weight=i["conv_weight"],
                out=attended,
            )

        return run


def thread_blocks(call: Call) -> int:
    """Thread blocks of the verify step and of the commit times their tokens."""
    heads, dim, q = call.inputs["a_log"].numel(), call.inputs["norm"].numel(), call.shape["q"]
    return 2 * len(call.inputs["slots"]) * heads * q * -(-dim // ROWS)
