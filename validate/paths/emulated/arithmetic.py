"""GPU arithmetic on a CPU: fused multiply-adds, approximate instructions and fixed orders of summation, in fp32."""

import torch
from torch import Tensor

LOG2E = 1.4426950408889634
MMA_K = 16  # products that one bf16 mma.sync adds to its fp32 accumulator (PTX ISA, mma.m16n8k16)
ALIGNED_BITS = 25  # bits kept below the largest exponent (measured: golden/h200, see mma)


def fma(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """fp32 ``a * b + c`` with one rounding. The product of two fp32 is exact in float64."""
    return torch.addcmul(c.double(), a.double(), b.double()).float()


def exp(x: Tensor) -> Tensor:
    """fp32 exp as CUDA's fast form: ex2.approx of the fp32-rounded ``x * log2(e)`` (its own 2-ulp error left out)."""
    return torch.exp2((x * LOG2E).double()).float()


def sigmoid(x: Tensor) -> Tensor:
    """fp32 ``1 / (1 + exp(-x))`` by the fast exp."""
    return 1 / (1 + exp(-x))


def tree_sum(values: Tensor) -> Tensor:
    """Sum over the last dimension (a power of two) as a butterfly of shuffles: halves added elementwise, repeatedly."""
    while values.shape[-1] > 1:
        first, second = values.chunk(2, -1)
        values = first + second
    return values[..., 0]


def chain_sum(parts: Tensor) -> Tensor:
    """Sum over the first dimension in its order, one fp32 rounding an addition: how ranks and splits are added up."""
    total = parts[0].clone()
    for part in parts[1:]:
        total += part
    return total


def mma(x: Tensor, weight: Tensor) -> Tensor:
    """``x @ weight.T`` as a chain of bf16 ``mma.sync``, bit for bit as a Hopper tensor core adds. x [m, k], weight [n, k].

    One instruction aligns its 16 products and the accumulator to the largest exponent among them, cuts each off at 25 bits
    below it, adds exactly and cuts the sum off at 24 bits. The model was fitted on an H200, where KDA's gate projection has
    fp32 sums at the middle between two bf16: it reproduces every value that fell to the other side (golden/h200).
    """
    total = torch.zeros(x.shape[0], weight.shape[0], dtype=torch.float64)
    a, b = x.double()[:, None], weight.double()[None]
    for start in range(0, x.shape[1], MMA_K):
        left, right = a[..., start : start + MMA_K], b[..., start : start + MMA_K]
        products = left * right
        # An exponent unit adds the operands' exponents; it does not look at the product.
        exponent = torch.where(products == 0, -1000, _exponent(left) + _exponent(right)).amax(-1)
        exponent = torch.maximum(exponent, torch.where(total == 0, -1000, _exponent(total)))
        unit = torch.ldexp(torch.ones_like(total), exponent - ALIGNED_BITS)
        summed = torch.trunc(products / unit[..., None]).sum(-1) * unit + torch.trunc(total / unit) * unit
        last_bit = torch.ldexp(torch.ones_like(total), _exponent(summed) - 23)
        total = torch.trunc(summed / last_bit) * last_bit
    return total.float()


def _exponent(x: Tensor) -> Tensor:
    """floor(log2(abs(x))) as int32; 0 has -1."""
    return torch.frexp(x)[1] - 1


def gemm(x: Tensor, weight: Tensor, step: int = 64) -> Tensor:
    """``x @ weight.T`` of a large matrix: ``step`` products added exactly, then cut off to fp32 and added on.

    Coarser than ``mma``: its cost is a matrix product's, and one cut for every four instructions keeps the direction
    (towards zero) and the order of the accumulation. x [m, k], weight [n, k]; returns fp32 [m, n].
    """
    total = torch.zeros(x.shape[0], weight.shape[0])
    for start in range(0, x.shape[1], step):
        # bf16 products are exact in fp32, and 64 of them lose less in fp32 than the cut that follows.
        total += x[:, start : start + step].float() @ weight[:, start : start + step].float().T
    return total
