"""``CuteSkinnyGemm`` as the specialized path's input projection of one and two rows has it (vLLM 0.33.0).

It loads weights at once, and its row after waiting for whoever writes it.
"""

import torch

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.paths.vllm.input_projection import SpecializedSkinny
from validate.paths.vllm.source import Source
from validate.races.gpu.bound import Bound, draw, poison, region, weight


def bind(source: Source, device: torch.device, *, tp: int, rows: int) -> Bound:
    """KDA's projection."""
    outputs = K3.kda_projection_rows(tp)
    late, (x,) = region(device, [((rows, K3.hidden), torch.bfloat16)])
    out = torch.empty(rows, outputs, dtype=torch.bfloat16, device=device)
    matrix = weight(device, 0, outputs, K3.hidden, scale=0.02)
    part = Call("input_projection", {}, {"x": x, "weight": matrix}, {}, {}, {"projected": out})

    def refresh(seed: int) -> None:
        poison(out)
        draw(seed, x)

    return Bound(SpecializedSkinny().prepare(part, source).launch, {"out": out}, refresh, late)
