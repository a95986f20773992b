"""The routed experts as each path computes them, one rank."""

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise

import torch
from torch import Tensor

from validate.model.call import Call
from validate.model.gpu import SMS
from validate.model.microscaling import Packed
from validate.paths.emulated import situ
from validate.paths.emulated.arithmetic import chain_sum, gemm
from validate.paths.emulated.front import uses_small_batch
from validate.paths.emulated.microscaling import ceil_exponent, decode, floor_exponent, quantise

BF16 = torch.bfloat16
STAGE = 256  # products along K of one stage of FC1
STAGES = 14
TILE = 64  # hidden channels of one FC1 tile: its gate and up rows
GROUP = 8  # tokens a unit
PADDED = 128  # the default kernel's hidden channels come in multiples of this: 192 at TP16 become 256


class DefaultExperts:
    """``FLASHINFER_TRTLLM_MXFP4_MXFP8``: all tokens of an expert at once, hidden channels padded with zeros.

    vLLM 0.33.0, fused_moe/experts/trtllm_mxfp4_moe.py; the kernel itself is compiled. Its scales are those of
    quantization/utils/mxfp8_utils.py.
    """

    def __call__(self, call: Call) -> None:
        """Runs the stage; ``reference.experts.reference`` says what the tensors are."""
        i = call.inputs
        self.tp, self.regime = call.shape["tp"], call.shape["regime"]
        self.beta, self.linear_beta = i["beta"], i["linear_beta"]
        self.w13, self.w2, self.width = i["w13"], i["w2"], 2 * i["w2"].codes.shape[2]
        self.x = self.quantise_latent(i["latent"].float())
        units = self.units(i["ids"])
        for index, (expert, pairs) in enumerate(units):
            x = self.x[self.tokens(pairs, i["ids"].shape[1])]
            gate, up = self.fc1(x, expert, self.cuts(index, len(units)))
            hidden = self.quantise_hidden(self.activate(gate, up))
            call.outputs["out"][pairs] = self.fc2(hidden, expert).to(BF16)

    def weight(self, packed: Packed, expert: int) -> Tensor:
        """fp32 [rows, width] of one expert's MXFP4 weight."""
        return _decoded(packed)[expert].float()

    def units(self, ids: Tensor) -> list[tuple[int, Tensor]]:
        """(expert, its pairs 16 token + slot) of every piece of work."""
        flat = ids.flatten()
        return [(expert, (flat == expert).nonzero()[:, 0]) for expert in flat.unique().tolist()]

    def tokens(self, pairs: Tensor, top_k: int) -> Tensor:
        """The rows of the latent that the pairs read."""
        return pairs // top_k

    def cuts(self, index: int, count: int) -> list[list[int]]:
        """For each FC1 tile of a unit, the stages at which a new partial sum begins."""
        return [[] for _ in range(self.width // TILE)]

    def quantise_latent(self, latent: Tensor) -> Tensor:
        """fp32 [rows, 3584] after MXFP8."""
        return quantise(latent, ceil_exponent)

    def fc1(self, x: Tensor, expert: int, cuts: list[list[int]]) -> tuple[Tensor, Tensor]:
        """fp32 gate and up, [n, I] each."""
        gate, up = gemm(x, self.weight(self.w13, expert)).chunk(2, 1)
        return gate, up

    def activate(self, gate: Tensor, up: Tensor) -> Tensor:
        """SiTU in the path's form, fp32."""
        return situ.exact(gate, up, self.beta, self.linear_beta)

    def quantise_hidden(self, hidden: Tensor) -> Tensor:
        """fp32 [n, I] after MXFP8."""
        return quantise(hidden, ceil_exponent)

    def fc2(self, hidden: Tensor, expert: int) -> Tensor:
        """fp32 [n, 3584]: hidden channels and weight columns are padded with zeros."""
        padding = (0, -hidden.shape[1] % PADDED)
        return gemm(torch.nn.functional.pad(hidden, padding), torch.nn.functional.pad(self.weight(self.w2, expert), padding))


class SpecializedExperts(DefaultExperts):
    """``ExpertsKernel`` (vLLM 0.33.0, specialized_decode/cutedsl/moe/experts.py) and the small-batch
    ``ClusterExperts``.

    Up to two rows every pair is a unit, up to eight every expert, above that an expert's tokens by eights. A
    persistent grid divides FC1's stages evenly: a tile that lies across two blocks is summed from their partial sums,
    in order. Only the 192 hidden channels that exist are used at TP16. The hidden scale is the exponent's floor at TP8.
    """

    def units(self, ids: Tensor) -> list[tuple[int, Tensor]]:
        """In routing order (pairs, or experts by first occurrence), or by expert (units of eight)."""
        flat = ids.flatten()
        if self.regime <= 2:
            return [(int(expert), torch.tensor([pair])) for pair, expert in enumerate(flat)]
        by_expert = dict(super().units(ids))
        if self.regime <= GROUP:
            return [(expert, by_expert[expert]) for expert in dict.fromkeys(flat.tolist())]
        return [(expert, part) for expert, pairs in by_expert.items() for part in pairs.split(GROUP)]

    def cuts(self, index: int, count: int) -> list[list[int]]:
        """Restates ``partition`` and experts_runtime.py's grids; the TP16 small batch halves K between two blocks."""
        tiles = self.width // TILE
        if uses_small_batch(self.tp, self.regime):
            return [[STAGES // 2] if self.tp == 16 else [] for _ in range(tiles)]
        middle = count if count <= 40 else (count * 50 + 99) // 100
        first, units = (0, middle) if index < middle else (middle, count - middle)
        size = tiles * STAGES * units
        grid = self.grid()
        found = []
        for tile in range(tiles):
            start = ((index - first) * tiles + tile) * STAGES
            blocks = range(start * grid // size, (start + STAGES) * grid // size + 2)
            bounds = {block * size // grid - start for block in blocks}
            found.append(sorted(bound for bound in bounds if 0 < bound < STAGES))
        return found

    def grid(self) -> int:
        """Thread blocks of the persistent kernel (experts_runtime.py ``PersistentExperts``).

        Above 8 rows the shared experts' down projection takes some SMs (moe/prepared.py; front.py ``SPLIT``, ``SPLITS`` for q 1).
        """
        if self.regime > GROUP:
            return SMS - (4 if self.regime <= 24 else 3 if self.tp == 8 and self.regime <= 32 else 2)
        table = {3: 148, 4: 148, 5: 128, 6: 128, 7: 132}
        return table.get(self.regime, 136) if self.tp == 8 else SMS

    def fc1(self, x: Tensor, expert: int, cuts: list[list[int]]) -> tuple[Tensor, Tensor]:
        """fp32 gate and up, tile by tile."""
        weight = self.weight(self.w13, expert).view(2, len(cuts), TILE, -1)
        tiles = [self.tile(x, weight[:, tile].flatten(0, 1), bounds) for tile, bounds in enumerate(cuts)]
        gate, up = torch.stack(tiles, 1).unflatten(2, (2, TILE)).unbind(2)
        return gate.flatten(1), up.flatten(1)

    def tile(self, x: Tensor, weight: Tensor, bounds: list[int]) -> Tensor:
        """fp32 [n, 128]: the owner's partial sum, then the others' in the order of their blocks."""
        edges = [0, *(bound * STAGE for bound in bounds), x.shape[1]]
        parts = [self.accumulate(x[:, a:b], weight[:, a:b]) for a, b in pairwise(edges)]
        return chain_sum(torch.stack(parts))

    def accumulate(self, x: Tensor, weight: Tensor) -> Tensor:
        """One accumulator's sum, fp32."""
        return x @ weight.T

    def activate(self, gate: Tensor, up: Tensor) -> Tensor:
        """tanh.approx, ex2.approx and rcp.approx."""
        return situ.approximate(gate, up, self.beta, self.linear_beta)

    def quantise_hidden(self, hidden: Tensor) -> Tensor:
        """The largest magnitudes of a block saturate at TP8, where the scale is the exponent's floor."""
        return quantise(hidden, self.hidden_rule())

    def hidden_rule(self) -> Callable[[Tensor], Tensor]:
        """From a block's largest magnitude to its scale's exponent."""
        return floor_exponent if self.tp == 8 else ceil_exponent

    def fc2(self, hidden: Tensor, expert: int) -> Tensor:
        """fp32 [n, 3584], one accumulator."""
        return self.accumulate(hidden, self.weight(self.w2, expert))


@lru_cache(maxsize=2)
def _decoded(weight: Packed) -> Tensor:
    return torch.stack([decode(c, s) for c, s in zip(weight.codes, weight.scales, strict=True)])
