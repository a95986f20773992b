"""``python -m tests.kernels.boxes ROOT TP``: what the expert kernels' TMA boxes hold, by the maps that vLLM encodes.

A process of its own, since vLLM's host code runs with the stand-ins of ``driverless``. Prints how many boxes are not the rows of
the weights that the kernels take them for (vLLM 0.33.0, cutedsl/moe/experts.py ``stream``, ``fc2_pair``, ``stage``,
``store_hidden``, ``fc2``; small_batch/experts.py ``issue``).
"""

import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from validate.kernels import driverless
from validate.kernels.deployment import Deployment
from validate.model.dimensions import K3
from validate.model.draws import Draws
from validate.model.microscaling import Packed, packed_weight
from validate.paths.vllm import expert_weights
from validate.paths.vllm.source import opened
from validate.reference.microscaling import E2M1, e8m0, mxfp4

EXPERTS = 2
LANES = torch.arange(128)
PLACE = LANES % 8, LANES % 32 // 8, LANES // 32  # in its group of eight lanes, the group, the warp


class Boxes:
    """Memory as TMA reads it: ``maps`` are (pointer, type, dims, strides, box, ...) as ``tensor_maps`` gets them."""

    def __init__(self, maps: list[Any], weights: tuple[Tensor, ...]) -> None:
        self.maps = maps
        self.memory = {weight.data_ptr(): weight.view(-1) for weight in weights}
        self.s13, self.s2 = (weights[n].view(-1) for n in (1, 3))

    def chunk(self, n: int, row: int, chunk: int) -> Tensor:
        """[128, 128] E2M1 values of one chunk of map ``n``: rows, elements."""
        pointer, _, dims, strides, box, *_ = self.maps[n]
        assert chunk < dims[2]
        assert row + 128 <= dims[1]
        start = row * strides[0] + chunk * strides[1]
        codes = torch.as_strided(self.memory[pointer], (128, box[0] // 2), (strides[0], 1), start)
        return E2M1[torch.stack([codes & 15, codes >> 4], -1).flatten(1).long()]


def scales(memory: Tensor, offset: int) -> Tensor:
    """[128, 128] factors: tcgen05.cp 32x128b.warpx4 of 512 bytes, four bytes for each row of a box."""
    return e8m0(memory[offset : offset + 512].view(32, 4, 4).transpose(0, 1).reshape(128, 4)).repeat_interleave(32, 1)


def fc1(boxes: Boxes, n: int, weight: Tensor, expert: int, rows: int) -> int:
    """All boxes of one expert by map ``n``: lanes without bit 8 hold an up row, lane l ^ 8 its gate row."""
    lane, group, warp = PLACE
    width, wrong = len(weight) // 2, 0
    for tile in range(width // 64):
        channel = 64 * tile + 16 * warp + 2 * lane + group // 2
        expected = weight[torch.where(group % 2 == 0, width + channel, channel)]
        for chunk in range(K3.latent // 128):
            offset = expert * rows * 112 + tile * 14336 + 512 * chunk
            found = boxes.chunk(n, expert * rows + 128 * tile, chunk) * scales(boxes.s13, offset)
            wrong += not torch.equal(found, expected[:, 128 * chunk : 128 * (chunk + 1)])
    return wrong


def fc2(boxes: Boxes, n: tuple[int, int], weight: Tensor, expert: int) -> int:
    """All boxes of one expert by the maps ``n``, the last chunk by the second: lane l holds column 4 (l % 8) + l / 8."""
    lane, group, warp = PLACE
    tp16, wrong = weight.shape[1] == 192, 0
    tile_bytes = 1024 if tp16 else 1536
    for tile in range(K3.latent // 128):
        row, offset = expert * K3.latent + 128 * tile, (expert * 28 + tile) * tile_bytes
        expected = weight[128 * tile + 32 * warp + 4 * lane + group]
        if tp16:  # the second chunk begins at channel 64, and its upper half is multiplied
            chunks = [boxes.chunk(n[0], row, 0), boxes.chunk(n[0], row, 1)[:, 64:]]
            factors = [scales(boxes.s2, offset), scales(boxes.s2, offset + 512)[:, :64]]
        else:
            chunks = [boxes.chunk(n[c // 2], row, c) for c in range(3)]
            factors = [scales(boxes.s2, offset + 512 * c) for c in range(3)]
        found = torch.cat([values * factor for values, factor in zip(chunks, factors, strict=True)], 1)
        wrong += not torch.equal(found, expected)
    return wrong


def main(root: str, tp: int) -> None:
    """Prints how many maps there are and how many boxes are wrong."""
    source = opened(Path(root))
    driverless.prepare(source, "sm_103a")
    driverless.deploy(Deployment(tp, 1, False, ()))
    runtime: Any = source.module(f"{driverless.CUTEDSL}.moe.experts_runtime")
    maps: list[Any] = []
    runtime.tensor_maps = lambda specs, device: maps.extend(specs) or torch.zeros(128 * len(specs), dtype=torch.uint8)
    draws, width = Draws("boxes", tp), K3.moe_intermediate // tp
    w13, w2 = ([packed_weight(draws, *size, -7) for _ in range(EXPERTS)] for size in ((2 * width, K3.latent), (K3.latent, width)))
    both = (Packed(torch.stack([w.codes for w in one]), torch.stack([w.scales for w in one])) for one in (w13, w2))
    weights = tuple(tensor.contiguous() for tensor in expert_weights.laid_out(*both))
    runtime.PersistentExperts(*weights)
    boxes, rows = Boxes(maps, weights), weights[0].shape[1]
    wrong = 0
    for expert in range(EXPERTS):
        first, second = (mxfp4(one[expert].codes, one[expert].scales) for one in (w13, w2))
        wrong += fc1(boxes, 0, first, expert, rows) + fc2(boxes, (1, 1), second, expert)
        if tp == 8:  # tile pairs' last chunks by map 5; the cluster kernel's maps are 2 to 4
            wrong += fc2(boxes, (1, 5), second, expert)
            wrong += fc1(boxes, 2, first, expert, rows) + fc2(boxes, (3, 4), second, expert)
    print(f"{len(maps)} maps, {wrong} boxes wrong")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
