"""Mistakes for ``simulated_stages``: of the adapters, of vLLM's host code, of a kernel; and what the suite says of each."""

from tests.kernels.simulated_stages import Fault

KERNELS = "tests.kernels.simulated_kernels"
HERE = "validate.paths.vllm"
DECODE = "models.kimi_k3.nvidia.specialized_decode"

FAULTS = {
    # The adapters'.
    "skinny result left where it is": Fault(f"{HERE}.input_projection", "out.copy_(projected)", "pass"),
    "input read when prepared": Fault(
        f"{HERE}.input_projection",
        'x, weight, out = call.inputs["x"], call.inputs["weight"], call.outputs["projected"]\n        policies',
        'x, weight, out = call.inputs["x"].clone(), call.inputs["weight"], call.outputs["projected"]\n        policies',
    ),
    "padded rows for live ones": Fault(f"{HERE}.dense_mlp", "out[: len(partial)]", "out[-len(partial) :]"),
    "bounds swapped": Fault(
        f"{HERE}.dense_mlp", 'beta=i["beta"], linear_beta=i["linear_beta"]', 'beta=i["linear_beta"], linear_beta=i["beta"]'
    ),
    "live rows one late": Fault(f"{HERE}.shared_experts", "PARITY, RANK, :live]", "PARITY, RANK, 1 : live + 1]"),
    "another parity": Fault(f"{HERE}.shared_experts", "self.received[:, PARITY,", "self.received[:, PARITY - 1,"),
    "owners in another order": Fault(
        f"{HERE}.shared_experts",
        "box.data_ptr() for box in self.received]",
        "box.data_ptr() for box in list(self.received)[::-1]]",
    ),
    "scale for a bound": Fault(f"{HERE}.shared_experts", "self.front.scalars[1:]", "self.front.scalars[:2]"),
    "a copy of the prefix": Fault(
        f"{HERE}.attn_res",
        'prefix, blocks, out = call.buffers["prefix"][:rows]',
        'prefix, blocks, out = call.buffers["prefix"][:rows].clone()',
    ),
    "a row too many": Fault(
        f"{HERE}.attn_res",
        'call.buffers["blocks"][:rows], call.outputs["out"]\n        if i',
        'call.buffers["blocks"][1 : rows + 1], call.outputs["out"]\n        if i',
    ),
    "gamma for the query": Fault(
        f"{HERE}.attn_res", '("norm", "query", "out_norm"))\n        out', '("norm", "out_norm", "query"))\n        out'
    ),
    "previous prefix": Fault(f"{HERE}.attn_res", 's["blocks"], bool(s["add"]), False)', 's["blocks"], not s["add"], False)'),
    "scale for its inverse": Fault(f"{HERE}.mla", 'one(i["q_scale_inv"])', 'one(i["q_scale"])'),
    "inverse for a scale": Fault(f"{HERE}.mla", '_k_scale_float=i["k_scale"]', '_k_scale_float=i["k_scale_inv"]'),
    "padded rows at slot 0": Fault(f"{HERE}.mla", "torch.full((rows,), -1,", "torch.full((rows,), 0,"),
    "gate columns shifted": Fault(f"{HERE}.mla", 'i["x"][:, gate])', 'i["x"][:, gate].roll(128, 1))'),
    "a short table": Fault(f"{HERE}.mla", 'TILE // call.shape["block"]', "1"),
    "table of the first step": Fault(
        f"{HERE}.mla",
        'call.inputs, call.shape["q"], call',
        '{**call.inputs, "table": call.inputs["table"].clone()}, call.shape["q"], call',
    ),
    "gate and up to the other half": Fault(f"{HERE}.shared_small_batch", "words[HALF, 0] =", "words[1 - HALF, 0] ="),
    "another third": Fault(f"{HERE}.shared_small_batch", "cutlass.Int32(THIRD)", "cutlass.Int32(THIRD - 1)"),
    "the table's bounds swapped": Fault(
        f"{HERE}.shared_small_batch",
        'cutlass.Float32(i["beta"]), cutlass.Float32(i["linear_beta"])',
        'cutlass.Float32(i["linear_beta"]), cutlass.Float32(i["beta"])',
    ),
    "the first rank's gate": Fault(f"{HERE}.mla", "LATENTS + group.rank * width", "LATENTS"),
    "another interleave": Fault(f"{HERE}.mla", 'interleave=i["interleave"])', "interleave=1)"),
    # vLLM's host code's.
    "positions of the first rank": Fault(f"{DECODE}.cutedsl.mla.prepared", "cp=(box.size, box.rank, ", "cp=(box.size, 0, "),
    "a shard's length for the whole": Fault(f"{DECODE}.cutedsl.mla.prepared", "totals=totals[:reqs])", "totals=lengths[:reqs])"),
    "queries to the other parity": Fault(f"{DECODE}.cutedsl.mla.dcp", "self.q_mc + parity * ", "self.q_mc + 0 * "),
    "unpadded down projection": Fault(f"{DECODE}.cutedsl.moe.dense", "(hidden + 127) // 128 * 128", "hidden"),
    "padding before the weight": Fault(f"{DECODE}.cutedsl.moe.dense", "(0, padded - hidden))", "(padded - hidden, 0))"),
    "weight's rows as its pitch": Fault(f"{DECODE}.cutedsl.gemm.projection", "(pitch,), (64, rows)", "(2 * n,), (64, rows)"),
    "half the capacity": Fault(
        f"{DECODE}.cutedsl.moe.front", "(tail.peers, *tail.ring, Int32(CAP))", "(tail.peers, *tail.ring, Int32(CAP // 2))"
    ),
    "gate from the latents": Fault(f"{DECODE}.cutedsl.mla.prepared", "projected[:, 2112:])", "projected[:, 2048:])"),
    "scales without the key's": Fault(
        f"{DECODE}.cutedsl.mla.prepared",
        "attention.scale * attention._q_scale_float * k_scale",
        "attention.scale * attention._q_scale_float",
    ),
    "lengths of requests as rows": Fault(
        f"{DECODE}.cutedsl.mla.prepared", "value = MlaValue(heads, batch, q)", "value = MlaValue(heads, batch)"
    ),
    # A kernel's.
    "a slot left out": Fault(KERNELS, "for part in parts[1:]", "for part in parts[2:]"),
    "a mailbox not armed": Fault(KERNELS, "    words.fill_(ARMED)\n", ""),
    "a row in another page": Fault(KERNELS, "cache[slot // cache.shape[1], slot", "cache[slot // cache.shape[1] - 1, slot"),
    "keys one too many": Fault(KERNELS, "count + 1 + torch.arange(count)).clamp", "count + 2 + torch.arange(count)).clamp"),
    "old keys": Fault(KERNELS, "flatten(0, 1)[:length].double()", "flatten(0, 1)[1 : length + 1].double()"),
    "gate for up": Fault(
        KERNELS, "situ(values[:, :width], values[:, width:], *rest", "situ(values[:, width:], values[:, :width], *rest"
    ),
    "sums not armed": Fault(KERNELS, "    words.fill_(-1)\n", ""),
    "heads of the next owner": Fault(KERNELS, "parts[:, own])", "parts[:, own].roll(1, 1))"),
}
