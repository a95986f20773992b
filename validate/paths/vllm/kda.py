"""KDA by vLLM's own kernels: ``causal_conv1d_update``, the packed decode or verify recurrence, the gated norm."""

import torch

from validate.model.call import Call
from validate.paths.vllm.loading import Kernels

# Thread blocks times tokens that the interpreter gets through in about three seconds: those of a verify step hold fewer
# rows of the state.
MOST_BLOCKS, MOST_VERIFY_BLOCKS = 400, 800


class VllmKda:
    """``_forward`` of models/kimi_k3/nvidia/kda.py (vLLM 0.33.0) for a batch of decode or of verify requests.

    The gate's projection is a bf16 linear layer, hence torch's. vLLM gives padded slots the null slot; the convolution
    would follow a negative one out of the cache, so here, too, it gets the null slot. The recurrence gets them as they
    are. The attention output begins as zeros: the verify kernel leaves the later rows of a padded request as they were.
    """

    def missing(self, call: Call) -> str | None:
        """Calls that would take the interpreter minutes."""
        blocks, most = thread_blocks(call), MOST_BLOCKS if call.shape["q"] == 1 else MOST_VERIFY_BLOCKS
        return f"{blocks} thread blocks: Triton's interpreter is run up to {most}" if blocks > most else None

    def __call__(self, call: Call, kernels: Kernels) -> None:
        """Runs the stage; ``reference.kda.reference`` says what the tensors are."""
        i = call.inputs
        heads, dim = i["a_log"].numel(), i["norm"].numel()
        attended = torch.zeros(1, len(i["x"]), heads, dim, dtype=i["x"].dtype)
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
        if call.shape["q"] == 1:
            kernels.convolve(i["x"], call.buffers["conv"], i["conv_weight"], None, **taps)
            kernels.decode(mixed_qkv=convolved, state_indices=i["slots"][:, 0].contiguous(), **recurrence)
        else:
            q = call.shape["q"]
            starts = torch.arange(0, len(i["x"]) + 1, q, dtype=torch.int32)
            taps |= {"num_accepted_tokens": i["accepted"], "query_start_loc": starts, "max_query_len": q}
            kernels.convolve(i["x"], call.buffers["conv"], i["conv_weight"], None, **taps)
            query, key, value = (part.view(attended.shape) for part in convolved.split(heads * dim, -1))
            recurrence |= {"cu_seqlens": starts, "ssm_state_indices": i["slots"], "num_accepted_tokens": i["accepted"]}
            kernels.verify(q=query, k=key, v=value, **recurrence)
        gate = i["gate"].view(attended.shape[1:])
        normed = kernels.gated_norm(attended[0], gate, i["norm"], None, "sigmoid", eps=i["norm_eps"])
        call.outputs["out"].copy_(normed.view(len(i["x"]), -1))


def thread_blocks(call: Call) -> int:
    """Thread blocks of the recurrence times its tokens; fused_recurrent.py chooses the state rows of a block."""
    heads, dim, q = call.inputs["a_log"].numel(), call.inputs["norm"].numel(), call.shape["q"]
    sequences = len(call.inputs["slots"]) * heads
    rows = 32 if q == 1 else 4 if sequences <= 48 else 16 if 96 < sequences <= 192 else 8
    return sequences * q * -(-dim // rows)
