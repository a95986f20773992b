"""Faults planted in the whole decode step: in its wiring and in the choice of the path."""

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor

from validate.faults import fault
from validate.model.call import Call
from validate.model.decoding import Step
from validate.paths.dispatch import Deployment, plan
from validate.paths.emulated.decode_step import Layers, SpecializedDecodeStep


@fault("decode_step.prompt-rows-specialized", "a mixed step taken for a pure decode (vLLM 51483: one-token chunk)")
class PromptRowsSpecialized(SpecializedDecodeStep):  # noqa: D101
    def plan(self, step: Step, deployment: Deployment) -> bool:
        return plan(tuple(replace(request, prompt=False) for request in step.requests), deployment).specialized


@fault("decode_step.prefix-not-restarted", "prefix kept after the attention of a block-write layer (mutant M25)")
class PrefixNotRestarted(SpecializedDecodeStep):  # noqa: D101
    def restarts(self, layer: int, writes: bool) -> bool:
        return writes and layer == 0


@fault("decode_step.block-written-a-layer-late", "block-write layers off by one (mutant M25)")
class BlockWrittenLate(SpecializedDecodeStep):  # noqa: D101
    def writes_block(self, layer: int, block: int) -> bool:
        return layer == 0 or layer % block == 1


@fault(
    "decode_step.aux-stream-a-layer-late",
    "auxiliary stream of the next layer: only drafts suffer (mutant M24; vLLM 50815)",
)
class AuxStreamLate(SpecializedDecodeStep):  # noqa: D101
    def aux_layer(self, call: Call) -> int:
        return super().aux_layer(call) + 1


class StateOfAWholeStepLost(Layers):
    """Keeps the convolution's taps and forgets the recurrent state where a step has an odd number of rows."""

    def keep(self, held: dict[str, Tensor], after: Mapping[str, Tensor]) -> None:
        lost = self.step.rows % 2 == 1
        super().keep({name: tensor for name, tensor in held.items() if not (lost and name == "state")}, after)


@fault("decode_step.fallback-state-lost", "a fallback step leaves the recurrent state as it was")
class FallbackStateLost(SpecializedDecodeStep):  # noqa: D101
    layers = StateOfAWholeStepLost


class OneKeyShort(Layers):
    """Attention's lengths of the second request lack the row that this step adds."""

    def mla(self, weights: dict[str, Tensor], x: Tensor) -> list[Tensor]:
        sound = self.step
        lengths = sound.lengths.clone()
        lengths[0, 1:2] = (lengths[0, 1:2] - 1).clamp_min(0)
        self.step = replace(sound, lengths=lengths)
        found = super().mla(weights, x)
        self.step = sound
        return found


@fault("decode_step.newest-key-missed", "one request attends to its cache as it was before the step (mutant M26)", subtle=True)
class NewestKeyMissed(SpecializedDecodeStep):  # noqa: D101
    layers = OneKeyShort
