"""KDA by vLLM's own kernels: ``causal_conv1d_update``, the packed decode or verify recurrence, the gated norm."""

import torch

from validate.model.call import Call
from validate.paths.vllm.loading import Kernels

BF16 = torch.bfloat16


def units(call: Call) -> int:
    """What the interpreter's time goes with: thread blocks times tokens."""
    requests, q = call.inputs["slots"].shape
    heads, dim = call.inputs["a_log"].numel(), call.inputs["norm"].numel()
    if q == 1:
        return requests * heads * -(-dim // 32)
    sequences = requests * heads
    rows = 4 if sequences <= 48 else 16 if 96 < sequences <= 192 else 8  # of the state, in a thread block
    return sequences * q * -(-dim // rows)


def run(kernels: Kernels, call: Call) -> None:
    """Follows ``_forward`` of models/kimi_k3/nvidia/kda.py (vLLM 0.33.0) for a batch of decode or of verify requests.

    The gate's projection is a bf16 linear layer, hence torch's. vLLM fills padded slots with the null slot before the
    convolution sees them, which would follow a negative one out of the cache; the recurrence gets them as they are. The
    attention output begins as zeros here: the verify kernel leaves the later rows of a padded request as they were.
    """
    i = call.inputs
    requests, q = i["slots"].shape
    rows, heads, dim = requests * q, i["a_log"].numel(), i["norm"].numel()
    raw_gate = torch.nn.functional.linear(i["f_a"], i["f_b"]).view(1, rows, heads, dim)
    attended = torch.zeros(1, rows, heads, dim, dtype=BF16)
    homes = i["slots"][:, 0].clamp_min(0).contiguous()
    convolved = torch.zeros_like(i["x"])
    common = {
        "raw_g": raw_gate,
        "raw_beta": i["beta"][None],
        "A_log": i["a_log"],
        "dt_bias": i["dt_bias"],
        "lower_bound": i["lower_bound"],
        "initial_state": call.buffers["state"],
        "out": attended,
    }
    taps = {"activation": "silu", "conv_state_indices": homes, "out": convolved}
    if q == 1:
        kernels.convolve(i["x"], call.buffers["conv"], i["conv_weight"], None, **taps)
        kernels.decode(mixed_qkv=convolved, state_indices=i["slots"][:, 0].contiguous(), **common)
    else:
        starts = torch.arange(0, rows + 1, q, dtype=torch.int32)
        accepted = i["accepted"]
        taps |= {"num_accepted_tokens": accepted, "query_start_loc": starts, "max_query_len": q}
        kernels.convolve(i["x"], call.buffers["conv"], i["conv_weight"], None, **taps)
        query, key, value = (part.view(1, rows, heads, dim) for part in convolved.split(heads * dim, -1))
        kernels.verify(
            q=query,
            k=key,
            v=value,
            cu_seqlens=starts,
            ssm_state_indices=i["slots"],
            num_accepted_tokens=accepted,
            **common,
        )
    gate = i["gate"].view(rows, heads, dim)
    normed = kernels.gated_norm(attended[0], gate, i["norm"], None, "sigmoid", eps=i["norm_eps"])
    call.outputs["out"].copy_(normed.view(rows, -1))
