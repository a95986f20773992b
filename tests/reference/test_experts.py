"""The experts' reference against a plain float64 loop over torch's own FP8 dtypes, and what its error terms promise."""

import pytest
import torch

from tests.support import ROOT
from validate.kernels import golden
from validate.model.call import Call
from validate.model.dimensions import K3
from validate.model.draws import Draws
from validate.model.microscaling import Packed, packed_weight
from validate.paths.emulated.experts import SpecializedExperts
from validate.reference.experts import reference
from validate.reference.microscaling import E2M1
from validate.reference.points import Member, Points

LATENT, WIDTH, EXPERTS = 256, 64, 4


def small_call(tp: int = 16, rows: int = 3) -> Call:
    """A call of small width; two experts a token."""
    draws = Draws("small experts", tp)
    w13 = [packed_weight(draws, 2 * WIDTH, LATENT, -5) for _ in range(EXPERTS)]
    w2 = [packed_weight(draws, LATENT, WIDTH, -4) for _ in range(EXPERTS)]
    stacked = [Packed(torch.stack([p.codes for p in w]), torch.stack([p.scales for p in w])) for w in (w13, w2)]
    inputs = {
        "latent": draws.bell((rows, LATENT), 1.0).bfloat16(),
        "ids": torch.tensor([[0, 3], [3, 1], [2, 0]], dtype=torch.int32)[:rows],
        "w13": stacked[0],
        "w2": stacked[1],
        "beta": K3.situ_beta,
        "linear_beta": K3.situ_linear_beta,
        "live": rows,
    }
    sizes = {"tp": tp, "batch": rows, "regime": rows}
    return Call("experts", sizes, inputs, {"out": ((2 * rows, LATENT), torch.bfloat16)})


def by_hand(call: Call, floor: bool) -> torch.Tensor:
    """The same by an element loop for the weights and torch's FP8 dtypes for the activations."""

    def weight(packed: Packed, expert: int) -> torch.Tensor:
        codes, scales = packed.codes[expert], packed.scales[expert]
        low, high = E2M1[(codes % 16).long()], E2M1[(codes // 16).long()]
        values = torch.empty(codes.shape[0], 2 * codes.shape[1], dtype=torch.float64)
        values[:, ::2], values[:, 1::2] = low, high
        return values * scales.view(torch.float8_e8m0fnu).double().repeat_interleave(32, 1)

    def mxfp8(row: torch.Tensor, floor: bool) -> torch.Tensor:
        parts = []
        for block in row.split(32):
            ratio = torch.log2(block.abs().max()) - 8 if floor else torch.log2(block.abs().max() / 448)
            scale = 2.0 ** float(torch.floor(ratio) if floor else torch.ceil(ratio))
            parts.append((block / scale).clamp(-448, 448).to(torch.float8_e4m3fn).double() * scale)
        return torch.cat(parts)

    i = call.inputs
    out = []
    for token, ids in enumerate(i["ids"].tolist()):
        x = mxfp8(i["latent"][token].double(), False)
        for expert in ids:
            gate, up = (weight(i["w13"], expert) @ x).split(WIDTH)
            gated = 4 * torch.tanh(gate / 4) / (1 + torch.exp(-gate)) * 25 * torch.tanh(up / 25)
            out.append(weight(i["w2"], expert) @ mxfp8(gated, floor))
    return torch.stack(out)


@pytest.mark.parametrize(("tp", "path", "floor"), [(16, "specialized", False), (8, "specialized", True), (8, "default", False)])
def test_agrees_with_a_loop_over_torchs_dtypes(tp: int, path: str, floor: bool):
    call = small_call(tp)
    torch.testing.assert_close(reference(call, Points(path))["out"].value, by_hand(call, floor), rtol=1e-12, atol=1e-12)


def test_common_reference_of_tp8_leaves_the_hidden_values_unrounded():
    common = reference(small_call(8), Points("common"))["out"]
    default, specialized = (reference(small_call(8), Points(path))["out"].value for path in ("default", "specialized"))
    assert not torch.equal(common.value, default)
    moved = (specialized - common.value).abs()
    flips = common.granted - moved  # what fp32 may move to the other side under the rule
    assert (flips >= 0).all()
    assert flips.max() > 0
    assert flips.norm() < moved.norm()


def test_flips_before_the_hidden_quantisation_stay_within_three_times_the_spread():
    """Moves SiTU's argument by its whole error in random directions, as a kernel might."""
    call = small_call()
    nominal = reference(call, Points("specialized"))["out"].value
    spread = (reference(call, Points("specialized", Member.UP))["out"].value - nominal).abs()

    class Shaken(SpecializedExperts):
        def activate(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
            shake = 1 + 2.0**-11 * (2 * draws.integers(tuple(gate.shape), 0, 2) - 1)
            return (super().activate(gate, up) * shake).float()

    for seed in range(20):
        draws = Draws("shaken", seed)
        fresh = call.fresh()
        Shaken()(fresh)
        half = torch.ldexp(torch.ones_like(nominal), torch.frexp(nominal)[1] - 9)
        assert bool(((fresh.outputs["out"].double() - nominal).abs() <= half + 3 * spread).all())


def test_padding_of_the_default_kernel_adds_nothing():
    from validate.paths.emulated.experts import DefaultExperts

    call = small_call()
    padded, plain = call.fresh(), call.fresh()
    DefaultExperts()(padded)

    class Plain(DefaultExperts):
        def fc2(self, hidden: torch.Tensor, expert: int) -> torch.Tensor:
            return hidden @ self.weight(self.w2, expert).T

    Plain()(plain)
    torch.testing.assert_close(padded.outputs["out"].float(), plain.outputs["out"].float(), rtol=2.0**-7, atol=2.0**-10)


@pytest.mark.parametrize(("regime", "grid"), [(3, 152), (4, 152), (16, 148), (64, 150)])
def test_partition_covers_every_stage_once(regime: int, grid: int):
    """Cuts of all tiles, put one after the other, are the bounds of a grid that divides the stages evenly."""
    experts = SpecializedExperts()
    experts.tp, experts.regime = 16, regime
    experts.width = 192
    for count in (16, 40, 41, 97):
        middle = count if count <= 40 else (count * 50 + 99) // 100
        for first, units in ((0, middle), (middle, count - middle)):
            if units == 0:
                continue
            size = units * 3 * 14
            bounds = {block * size // grid for block in range(1, grid)} - {14 * tile for tile in range(3 * units)} - {0}
            found = {
                (unit * 3 + tile) * 14 + cut
                for unit in range(units)
                for tile, cuts in enumerate(experts.cuts(first + unit, count))
                for cut in cuts
            }
            assert found == bounds


@pytest.mark.parametrize(
    ("tp", "rows"), [(8, n) for n in (*range(2, 9), 16, 32, 64)] + [(16, n) for n in (*range(3, 9), 16, 32, 64)]
)
def test_the_grids_are_those_that_vllm_compiles_for(tp: int, rows: int) -> None:
    """golden/kernels has every variant, those of verify steps, too, by its rows and its grid."""
    experts = SpecializedExperts()
    experts.tp, experts.regime = tp, rows
    names = golden.read(ROOT / "golden/kernels/sm_103a.json").variants
    start = f"experts/ExpertsKernel/tp={tp},experts=896,batch={rows},grid="
    assert experts.grid() in {int(name.removeprefix(start).partition(",")[0]) for name in names if name.startswith(start)}
