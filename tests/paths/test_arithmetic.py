"""The emulated GPU arithmetic against exact arithmetic and against its own description."""

from fractions import Fraction

import torch
from hypothesis import given
from hypothesis import strategies as st

from validate.paths.emulated.arithmetic import chain_sum, exp, fma, gemm, mma, sigmoid, tree_sum

finite = st.floats(-1e6, 1e6, width=32)


@given(finite, finite, finite)
def test_fma_rounds_once(a: float, b: float, c: float) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    found = Fraction(float(fma(torch.tensor(a), torch.tensor(b), torch.tensor(c))))
    ulp = Fraction(2) ** max(-149, (abs(exact).numerator.bit_length() - exact.denominator.bit_length()) - 23)
    assert abs(found - exact) <= ulp / 2 * Fraction(1000001, 1000000)


def test_fma_keeps_what_a_product_and_a_sum_lose() -> None:
    a = torch.tensor(1 + 2.0**-12)
    assert float(fma(a, a, torch.tensor(-1.0))) == 2.0**-11 + 2.0**-24
    assert float(a * a - 1) == 2.0**-11


def test_chain_sum_depends_on_the_order_as_fp32_does() -> None:
    parts = torch.tensor([2.0**24, 1.0, -(2.0**24)])
    assert float(chain_sum(parts)) == 0.0
    assert float(chain_sum(parts[[0, 2, 1]])) == 1.0


def test_tree_sum_adds_halves() -> None:
    assert float(tree_sum(torch.tensor([2.0**24, 1.0, -(2.0**24), 1.0]))) == 2.0
    assert float(chain_sum(torch.tensor([2.0**24, 1.0, -(2.0**24), 1.0]))) == 1.0


def test_mma_cuts_off_below_25_bits_of_the_largest_term() -> None:
    x = torch.zeros(1, 16)
    weight = torch.zeros(1, 16)
    x[0, :3] = torch.tensor([1.0, 1.0, 1.0])
    weight[0, :3] = torch.tensor([1.0, -(2.0**-25), 2.0**-24])
    # 1 - 2**-25 + 2**-24 = 1 + 2**-25, cut off to fp32.
    assert float(mma(x.bfloat16(), weight.bfloat16())) == 1.0
    weight[0, :3] = torch.tensor([1.0, -(2.0**-25), 0.0])
    assert float(mma(x.bfloat16(), weight.bfloat16())) == 1.0 - 2.0**-24  # towards zero, not to nearest
    weight[0, :3] = torch.tensor([1.0, -(2.0**-26), 0.0])
    assert float(mma(x.bfloat16(), weight.bfloat16())) == 1.0  # below the window: lost before the sum


def test_mma_and_gemm_are_products() -> None:
    g = torch.Generator().manual_seed(0)
    x, w = (torch.randn(n, 256, generator=g).bfloat16() for n in (5, 7))
    exact = x.double() @ w.double().T
    for found in (mma(x, w), gemm(x, w)):
        assert float((found - exact).abs().max()) < 256 / 8 * 2.0**-24 * 2 * 16
    assert not torch.equal(mma(x, w).double(), exact)


def test_fast_exponentials_are_close() -> None:
    x = torch.linspace(-20, 20, 4001)
    error = (exp(x).double() / x.double().exp() - 1).abs()
    # The argument's rounding at 20 * log2(e) = 28.9: half of 2**-19, times ln 2; log2(e) in fp32; the result's own rounding.
    assert float(error.max()) < 2.0**-20 * 0.7 + 20 * 2.0**-25 + 2.0**-24
    assert float((sigmoid(x).double() - torch.sigmoid(x.double())).abs().max()) < 2.0**-20
