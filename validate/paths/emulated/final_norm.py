"""The model's final norm as each path computes it, one rank."""

import torch
from torch import Tensor

from validate.model.call import Call
from validate.paths.emulated import row_sums
from validate.paths.emulated.arithmetic import fma

BF16 = torch.bfloat16


def reciprocal_rms(squares: Tensor, width: int, eps: float | Tensor) -> Tensor:
    """fp32 [..., 1] from a row's sum of squares: the mean is formed by an FMA with the rounded 1 / width."""
    mean = fma(squares, torch.full_like(squares, 1 / width), torch.as_tensor(eps, dtype=torch.float32))
    return torch.rsqrt(mean)[..., None]


class DefaultFinalNorm:
    """``RMSNorm`` in ``compute_logits``: the normalised row becomes bf16 before it meets the weight.

    Its formula is vLLM 0.33.0, ir/ops/layernorm.py; the GPU kernel (kernels/vllm_c.py) is compiled and not in the
    wheel. Below 256 rows it runs 1024 threads a row.
    """

    def __call__(self, call: Call) -> None:
        """Runs the stage; ``reference.final_norm.reference`` says what the tensors are."""
        i = call.inputs
        call.outputs["out"].copy_(self.normalise(i["x"].float(), i["weight"].float(), i["eps"]))

    def normalise(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        """bf16 rows of unit root mean square, times the weight."""
        return self.weighted(x * self.scale(x, eps), weight).to(BF16)

    def scale(self, x: Tensor, eps: float) -> Tensor:
        """fp32 [rows, 1]: one over the root mean square."""
        return torch.rsqrt(self.squares(x) / x.shape[-1] + eps)[..., None]

    def squares(self, x: Tensor) -> Tensor:
        """fp32 [rows]: the row's sum of squares."""
        return row_sums.one_vector_each(x, x)

    def weighted(self, normed: Tensor, weight: Tensor) -> Tensor:
        """fp32 product with the weight."""
        return normed.to(BF16).float() * weight


class SpecializedFinalNorm(DefaultFinalNorm):
    """The last boundary of the final AttnRes (vLLM 0.33.0, specialized_decode/cutedsl/attn_res/kernel.py, ``final``).

    A cluster of seven blocks a row; fp32 up to the output.
    """

    def scale(self, x: Tensor, eps: float) -> Tensor:
        """fp32 [rows, 1]: one over the root mean square."""
        return reciprocal_rms(self.squares(x), x.shape[-1], eps)

    def squares(self, x: Tensor) -> Tensor:
        """fp32 [rows]: the row's sum of squares."""
        return row_sums.cluster(x, x)

    def weighted(self, normed: Tensor, weight: Tensor) -> Tensor:
        """fp32 product with the weight."""
        return normed * weight
