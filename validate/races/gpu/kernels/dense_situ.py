"""``DenseSitu`` (vLLM 0.33.0, cutedsl/moe/dense.py): the dense MLP's SiTU, on products that it reads after waiting for them."""

import torch

from validate.model.dimensions import K3
from validate.paths.vllm import binding
from validate.paths.vllm.entries import DENSE, imported
from validate.paths.vllm.source import Source
from validate.races.gpu.bound import Bound, draw, poison, region


def bind(source: Source, device: torch.device, *, tp: int, rows: int) -> Bound:
    """At TP 16 the result is padded with zeros."""
    host, float32 = binding.host(source), binding.cutlass().Float32
    width = K3.dense_intermediate // tp
    padded = width + -width % 128
    code = imported(source, DENSE, "_compile_activation")(width, padded, host.architecture(device))
    scalars = float32(K3.situ_beta), float32(K3.situ_linear_beta)
    late, (gate_up,) = region(device, [((rows, 2 * width), torch.bfloat16)])
    out = torch.empty(rows, padded, dtype=torch.bfloat16, device=device)

    def launch() -> None:
        code(host.dynamic_view(gate_up), host.dynamic_view(out), *scalars, host.stream(device))

    def refresh(seed: int) -> None:
        poison(out)
        draw(seed, gate_up)

    return Bound(launch, {"out": out}, refresh, late)
