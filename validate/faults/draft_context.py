"""Faults planted in the drafter's context, the same on both paths."""

from functools import partial

import torch
from torch import Tensor

from validate.faults import fault
from validate.model.call import Call
from validate.paths.emulated.draft_context import BF16, DraftContext, Inputs

planted = partial(fault, path="default")


@planted("draft_context.position-off-by-one", "rotated as the next token: positions counted from the draft's start")
class PositionOffByOne(DraftContext):  # noqa: D101 - each fault is described by its decorator
    def positions(self, i: Inputs, layers: int) -> Tensor:
        return (super().positions(i, layers) + 1) % len(i["table"])


@planted("draft_context.positions-by-token", "positions repeated for each token's layers, where rows stand layer by layer")
class PositionsByToken(DraftContext):  # noqa: D101
    def positions(self, i: Inputs, layers: int) -> Tensor:
        return i["positions"].repeat_interleave(layers).view(layers, -1)


@planted("draft_context.halves-rotated", "channel n rotated with n + 32, not with its neighbour (NeoX style)")
class HalvesRotated(DraftContext):  # noqa: D101
    def rotate(self, rest: Tensor, table: Tensor) -> Tensor:
        dealt = torch.stack(rest.chunk(2, -1), -1).flatten(-2)
        return super().rotate(dealt, table).unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)


@planted("draft_context.rotated-back", "the sine's sign: rotated the other way")
class RotatedBack(DraftContext):  # noqa: D101
    def rotate(self, rest: Tensor, table: Tensor) -> Tensor:
        cosine, sine = table.chunk(2, -1)
        return super().rotate(rest, torch.cat([cosine, -sine], -1))


@planted("draft_context.table-in-bf16", "cosines and sines rounded to bf16: the angle of a far token drifts", subtle=True)
class TableInBf16(DraftContext):  # noqa: D101
    def rotate(self, rest: Tensor, table: Tensor) -> Tensor:
        return super().rotate(rest, table.to(BF16).float())


@planted("draft_context.not-rotated", "no rotation, as in the target model's own latent attention")
class NotRotated(DraftContext):  # noqa: D101
    def rotate(self, rest: Tensor, table: Tensor) -> Tensor:
        return rest


@planted("draft_context.norm-of-neighbour", "each layer's latent takes the next layer's norm weight")
class NormOfNeighbour(DraftContext):  # noqa: D101
    def latent_weights(self, weights: Tensor) -> Tensor:
        return weights.roll(-1, 0)


@planted("draft_context.norm-of-first-layer", "one norm weight for all layers: its stride over layers is 0")
class NormOfFirstLayer(DraftContext):  # noqa: D101
    def latent_weights(self, weights: Tensor) -> Tensor:
        return weights[:1].expand_as(weights)


@planted("draft_context.norm-over-whole-row", "the latent's norm takes the mean over the key rest, too")
class NormOverWholeRow(DraftContext):  # noqa: D101
    def latent(self, by_layer: Tensor, weights: Tensor, eps: float) -> Tensor:
        x = by_layer.float()
        normed = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
        return (normed[..., : weights.shape[1]].to(BF16).float() * weights[:, None].float()).to(BF16).float()


@planted("draft_context.epsilon-missing", "no epsilon under the norms' roots: shows on faint states", subtle=True)
class EpsilonMissing(DraftContext):  # noqa: D101
    def scale(self, x: Tensor, eps: float) -> Tensor:
        return super().scale(x, 0.0)


@planted("draft_context.context-norm-missing", "the target's states go to the projection without their norm")
class ContextNormMissing(DraftContext):  # noqa: D101
    def combine(self, i: Inputs) -> Tensor:
        return self.project(i["states"], i["context_proj"])


@planted("draft_context.projection-of-neighbour", "the first layer's rows by the second layer's projection")
class ProjectionOfNeighbour(DraftContext):  # noqa: D101
    def __call__(self, call: Call) -> None:
        weight = call.inputs["kv_proj"].clone()
        rows = len(weight) // len(call.inputs["kv_norm"])
        weight[:rows] = weight[rows : 2 * rows]
        super().__call__(Call(call.stage, call.shape, {**call.inputs, "kv_proj": weight}, {}, call.buffers, call.outputs))


@planted("draft_context.slot-off-by-one", "rows written one slot further on")
class SlotOffByOne(DraftContext):  # noqa: D101
    def slots(self, i: Inputs, layers: int) -> Tensor:
        slots = super().slots(i, layers)
        return torch.where(slots >= 0, (slots + 1) % 128, slots)


@planted("draft_context.slots-of-first-layer", "one layer's slot mapping for all, though the layers have their own")
class SlotsOfFirstLayer(DraftContext):  # noqa: D101
    def slots(self, i: Inputs, layers: int) -> Tensor:
        return super().slots(i, layers)[:1].expand(layers, -1)


@planted("draft_context.padding-written", "slot -1 is taken for the last row of the cache", subtle=True)
class PaddingWritten(DraftContext):  # noqa: D101
    def written(self, slots: Tensor) -> Tensor:
        return torch.ones_like(slots, dtype=torch.bool)


@planted("draft_context.scale-ignored", "E4M3 rows stored without the layer's scale")
class ScaleIgnored(DraftContext):  # noqa: D101
    def scaled(self, row: Tensor, scales: Tensor) -> Tensor:
        return row


@planted("draft_context.scale-multiplied", "E4M3 rows multiplied by the scale, not divided")
class ScaleMultiplied(DraftContext):  # noqa: D101
    def scaled(self, row: Tensor, scales: Tensor) -> Tensor:
        return row * scales[:, None, None]


@planted("draft_context.scale-of-first-layer", "the first layer's scale for all layers")
class ScaleOfFirstLayer(DraftContext):  # noqa: D101
    def scaled(self, row: Tensor, scales: Tensor) -> Tensor:
        return row / scales[0]


@planted("draft_context.overflow-to-nan", "what exceeds 448 units becomes NaN instead of 448", subtle=True)
class OverflowToNan(DraftContext):  # noqa: D101
    def scaled(self, row: Tensor, scales: Tensor) -> Tensor:
        scaled = super().scaled(row, scales)
        return torch.where(scaled.abs() > 448, torch.nan, scaled)


@planted("draft_context.row-not-rounded", "the rotated part goes to E4M3 from fp32, one rounding too few", subtle=True)
class RowNotRounded(DraftContext):  # noqa: D101
    def round_rotated(self, rest: Tensor) -> Tensor:
        return rest
