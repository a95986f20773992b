"""The specialized decode's arithmetic: what vLLM's fused kernels round and add up otherwise than the default path.

Which points these are is read from vLLM 0.33.0 and stated stage by stage in ``validate/paths/emulated``; the sizes (parts of a
sum, ranks) are scaled to the stand-in's.
"""

import torch
from torch import Tensor

from validate.model.decoding import Request
from validate.paths import dispatch
from validate.paths.emulated import situ
from validate.paths.emulated.arithmetic import chain_sum
from validate.standin.forms import Forms, Weights

SPLITS = 4  # partial sums of a split-K projection (emulated/input_projection.py)
RANKS = 4  # partial rows of an o-projection or a shared expert, rounded and then added up


class SpecializedForms(Forms):
    """The specialized path. With float32 activations it differs from the default in orders of summation only."""

    def plan(self, requests: tuple[Request, ...], deployment: dispatch.Deployment) -> dispatch.Plan:
        """Whether it serves a step."""
        return dispatch.plan(requests, deployment)

    def split(self, x: Tensor, weight: Tensor) -> Tensor:
        """fp32: partial sums over equal parts of the inner dimension, added in order."""
        parts = [a.float() @ b.float().T for a, b in zip(x.chunk(SPLITS, 1), weight.chunk(SPLITS, 1), strict=True)]
        return chain_sum(torch.stack(parts))

    def project(self, x: Tensor, weight: Tensor) -> Tensor:
        """One rounding after the partial sums."""
        return self.split(x, weight).to(x.dtype)

    def mean_square(self, saved: Tensor, own: Tensor) -> Tensor:
        """From three sums: the two squares and the product (emulated/attn_res.py)."""
        return (saved.square() + 2 * saved * own + own.square()).mean(-1, keepdim=True)

    def stored(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Nothing is stored between convolution, recurrence and norm: one kernel (emulated/kda.py)."""
        return x

    def ranks(self, x: Tensor, weight: Tensor) -> Tensor:
        """Each rank's row rounded, all added up in fp32 (emulated/o_proj.py)."""
        shards = zip(x.chunk(RANKS, 1), weight.chunk(RANKS, 1), strict=True)
        rows = [(a.float() @ b.float().T).to(x.dtype).float() for a, b in shards]
        return chain_sum(torch.stack(rows)).to(x.dtype)

    def o_proj(self, weight: Tensor, local: Tensor) -> Tensor:
        """Partial rows through mailboxes."""
        return self.ranks(local, weight)

    def situ(self, gate: Tensor, up: Tensor) -> Tensor:
        """In the shared experts and the dense MLP: the products with reciprocals (emulated/situ.py)."""
        return situ.reciprocal(gate, up, self.d.situ_beta, self.d.situ_linear_beta)

    def router_logits(self, x: Tensor, weight: Tensor) -> Tensor:
        """The router is partitioned over ranks along K."""
        return self.split(x, weight)

    def expert(self, w13: Tensor, w2: Tensor, x: Tensor) -> Tensor:
        """FC1 in two partial sums; approximate instructions, whose error of 2**-11 lies below bf16's own rounding.

        With float32 activations the accurate functions stand in for them.
        """
        half = x.shape[1] // 2
        gate, up = (x[:, :half].float() @ w13[:, :half].float().T + x[:, half:].float() @ w13[:, half:].float().T).chunk(2, 1)
        form = situ.exact if x.dtype == torch.float32 else situ.approximate
        hidden = form(gate, up, self.d.situ_beta, self.d.situ_linear_beta).to(x.dtype)
        return (hidden.float() @ w2.float().T).to(x.dtype)

    def shared(self, weights: Weights, x: Tensor) -> Tensor:
        """Partial rows of the ranks' hidden channels."""
        gate, up = self.split(x, weights["shared_gate_up"]).chunk(2, 1)
        return self.ranks(self.situ(gate, up).to(x.dtype), weights["shared_down"])

    def tail(self, weights: Weights, latent: Tensor, shared: Tensor) -> Tensor:
        """Squares are rounded before they are summed (emulated/moe_tail.py)."""
        squares = latent.square().float()
        rstd = torch.rsqrt(squares.mean(-1, keepdim=True) + self.d.rms_eps)
        normed = (latent.float() * rstd * weights["latent_norm"].float()).to(latent.dtype)
        return (self.split(normed, weights["latent_up"]).to(latent.dtype).float() + shared.float()).to(latent.dtype)
