"""How far the specialized path may lie from the default one: a multiple of the default path's own error or of the A/A noise.

``MULTIPLE``. A stage may be at most twice as far from float64 as the default path is (numerics/acceptance.py). Let ``e`` be the
rms error of a logit of the default path. Independent errors of ``e`` and ``2 e`` lie ``sqrt(5) e`` apart. Two batch
compositions of the default path lie ``sqrt(2 (1 - r)) e`` apart, ``r`` the correlation of their errors: they share the rounding
points and differ in the order of sums, so ``r`` is above 0. The ratio is 1.6 for r = 0, 2.2 for 1/2, 4 for 0.84. The one
published pair of figures agrees: a second launch of the same kernels kept 92 % of 16 greedy tokens on a model with KDA, a good
other kernel 76 % (SGLang, test/kits/kda_cake_parity_kit.py): 3.4 times as many divergences a token, and their number grows as
the noise does.

``OWN``. Where the default path was recorded in float32, too, on the same tokens (the stand-in, in bf16), ``e`` is measured, by
what the two differ in: float32's own error is 2**-16 of bf16's. ``sqrt(5) e`` as above, and no batches have to vary.

``floor``. Where the A/A arm differs little or not at all (batch-invariant kernels, float32, a CPU), ``r`` is near 1 and it
says nothing of ``e``. Then ``e`` is what the roundings to the dtype cost, each a relative rms error of 0.42 u (to nearest,
significands distributed as 1/m: u / sqrt(3) * sqrt(3 / (8 ln 2)) = 0.42 u), independent ones adding as squares. Each of the 2
sublayers of a layer rounds the residual stream once, and within itself INSIDE more values one after the other (projection,
core or hidden channels, output, sum over ranks: the eight a layer of reference/decode_step.py). These reach the stream by the
sublayer's share of it: one of k equal and independent outputs, 1/k of the variance, where the stream holds k; and it holds 1,
2, ... 2 n of them, since AttnRes begins it anew every n layers. The logits, linear in the stream, move by that share of their
spread over the vocabulary, LOGIT_SPREAD nats in trained models to within a factor of 2. ``sqrt(5) e`` as above. Too low a floor
only matters where A/A noise is below it, too high a one hides defects. bf16: 0.045 nats for the practice model (6 layers, n = 2),
0.13 for Kimi K3 (93, 12).
"""

from dataclasses import dataclass

from validate.records.arm import ArmManifest

MULTIPLE = 4.0
OWN = 5.0**0.5
LOGIT_SPREAD = 2.0  # nats, rms over the vocabulary
INSIDE = 4  # roundings within a sublayer
ROUNDOFF = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24}

# An fp32 logprob between -16 and -8 is recorded to within half an ulp of 2**-20 nats; a difference of two to within one.
# ``LEAST`` is the least scale that differences are divided by (estimates.py): together, no logit is known better than to 1e-4
# nats.
RESOLUTION = 2.0**-20
LEAST = 0.01


@dataclass(frozen=True)
class Yardstick:
    """What differences to the default arm are held against: ``multiple`` times those of another default arm.

    ``noise`` names that arm; ``floor``: nats of a logit, allowed at the least.
    """

    noise: str
    multiple: float
    floor: float


def yardstick(default: ArmManifest, float32: bool) -> Yardstick:
    """``float32``: whether the default path was recorded without its dtype's rounding."""
    own = ("float32", OWN) if float32 else ("A/A", MULTIPLE)
    return Yardstick(*own, floor(default))


def floor(manifest: ArmManifest) -> float:
    """The rms difference of a logit, in nats, that two correct paths in the arm's dtype may show at any A/A noise."""
    held = range(1, 2 * manifest.attn_res_block + 1)
    roundings = 2 * manifest.layers * (1 + INSIDE * sum(1 / k for k in held) / len(held))
    return max(OWN * 0.42 * ROUNDOFF[manifest.rounds_to] * roundings**0.5 * LOGIT_SPREAD, RESOLUTION / LEAST)
