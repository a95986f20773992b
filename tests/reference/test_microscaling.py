"""The MX formats: reference and emulation, each against torch's own dtypes and the standard's tables."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from validate.model.draws import Draws
from validate.model.microscaling import packed_weight
from validate.paths.emulated import microscaling as emulated
from validate.reference import microscaling as reference

ALL = torch.arange(256, dtype=torch.int32).to(torch.uint8)
# OCP Microscaling Formats v1.0, table 5: E2M1 codes 0 to 7.
E2M1_TABLE = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def test_e2m1_is_the_standards_table():
    assert reference.E2M1.tolist() == E2M1_TABLE + [-value for value in E2M1_TABLE]
    low_first = emulated.elements(torch.tensor([[0x21, 0xF0]], dtype=torch.uint8))
    assert low_first.tolist() == [[0.5, 1.0, 0.0, -6.0]]
    assert reference.E2M1_PAIRS[0x21].tolist() == [0.5, 1.0]


def test_e8m0_is_torchs():
    torchs = ALL.view(torch.float8_e8m0fnu).double()
    torch.testing.assert_close(reference.e8m0(ALL), torchs, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(emulated.powers(ALL[1:255]).double(), torchs[1:255])


def test_e4m3_is_torchs_for_every_number_and_middle():
    numbers = ALL.view(torch.float8_e4m3fn).double()
    numbers = numbers[numbers.isfinite()].unique()
    middles = (numbers[1:] + numbers[:-1]) / 2
    near = torch.cat([middles * (1 + 2.0**-20), middles * (1 - 2.0**-20)])
    for values in (numbers, middles, near):
        expected = values.float().to(torch.float8_e4m3fn).double()
        assert torch.equal(reference.e4m3(values), expected)


def test_e4m3_saturates():
    assert reference.e4m3(torch.tensor([449.0, 1e9, -511.0]).double()).tolist() == [448.0, 448.0, -448.0]


def test_decoders_agree_with_each_other_and_with_a_loop():
    packed = packed_weight(Draws("mx"), 3, 128, -7)
    value = reference.mxfp4(packed.codes, packed.scales)
    assert torch.equal(emulated.decode(packed.codes, packed.scales).double(), value)
    for row, column in ((0, 0), (1, 33), (2, 127)):
        byte = int(packed.codes[row, column // 2])
        code = byte >> 4 if column % 2 else byte & 15
        sign = -1 if code & 8 else 1
        scale = 2.0 ** (int(packed.scales[row, column // 32]) - 127)
        assert value[row, column] == sign * E2M1_TABLE[code & 7] * scale


@pytest.mark.parametrize(
    ("largest", "ceil", "floor"),
    [
        (448.0, 0, 0),  # 1.75 * 2**8: the largest E4M3 number fits without a scale
        (448.0 * (1 + 2.0**-20), 1, 0),
        (447.0, 0, 0),
        (256.0, 0, 0),
        (511.0, 1, 0),
        (1.0, -8, -8),
        (1.75, -8, -8),
        (1.7578125, -7, -8),  # the next bf16
        (0.0, -127, -127),
        (2.0**-126, -127, -127),
        (2.0**-130, -127, -127),
        (2.0**-118, -126, -126),
    ],
)
def test_scales_at_their_boundaries(largest: float, ceil: int, floor: int):
    double, single = torch.tensor([largest]).double(), torch.tensor([largest])
    assert int(reference.ceil_scale(double)) == ceil == int(emulated.ceil_exponent(single)) - 127
    assert int(reference.floor_scale(double)) == floor == int(emulated.floor_exponent(single)) - 127


def test_ceil_scale_is_vllms_torch_formula():
    largest = Draws("scales").bell((4096,)).abs() * torch.exp2(Draws("range").integers((4096,), -100, 100).double())
    formula = torch.ceil(torch.log2(largest / 448.0))
    assert torch.equal(reference.ceil_scale(largest).double(), formula)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.integers(-100, 100))
def test_both_quantisers_agree_and_keep_their_promise(seed: int, exponent: int):
    values = (Draws("block", seed).bell((4, 64)) * 2.0**exponent).float()
    for name in ("ceil", "floor"):
        value = getattr(reference, f"mxfp8_{name}")(values.double())
        assert torch.equal(emulated.quantise(values, getattr(emulated, f"{name}_exponent")).double(), value)
        # Half a unit of three mantissa bits, or of the smallest exponent, 14 below the block's; one that saturates
        # loses 1/8.
        largest = values.double().unflatten(1, (-1, 32)).abs().amax(2).repeat_interleave(32, 1)
        allowed = torch.maximum(values.double().abs() / 16, largest * 2.0**-16)
        allowed = torch.where(values.double().abs() == largest, largest / 8, allowed) if name == "floor" else allowed
        saturating = (values.double().abs() > largest * 0.875) & (name == "floor")
        assert bool(((value - values.double()).abs() <= torch.where(saturating, largest / 8, allowed)).all())


def test_zero_and_subnormal_blocks_stay_finite():
    values = torch.zeros(1, 64)
    values[0, 32:] = 2.0**-130
    for rule in (emulated.ceil_exponent, emulated.floor_exponent):
        assert bool(emulated.quantise(values, rule).isfinite().all())
    assert torch.equal(reference.mxfp8_ceil(values.double())[0, :32], torch.zeros(32).double())


def test_nan_stays_in_its_block():
    values = torch.ones(2, 64)
    values[0, 3] = float("nan")
    found = emulated.quantise(values, emulated.ceil_exponent)
    assert bool(found[1].isfinite().all())
    assert bool(found[0, 32:].isfinite().all())
