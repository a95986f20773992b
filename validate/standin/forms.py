"""The default path's arithmetic: activations of one dtype, fp32 inside a form, one rounding at its end.

The equations are those of ``validate/reference``; rounding points are those of vLLM's default path as the stages list them. All
rows are tokens: x is [rows, hidden].
"""

import torch
from torch import Tensor

from validate.model.dimensions import Dimensions
from validate.standin import recurrence

Weights = dict[str, Tensor]
Cache = tuple[Tensor, ...]  # of a KDA layer: taps [slots, tap, channel] and fp32 recurrent state [slots, H, V, K]


class Forms:
    """The default path. With float32 activations nothing is rounded below fp32."""

    def __init__(self, dimensions: Dimensions) -> None:
        self.d = dimensions

    def linear(self, x: Tensor, weight: Tensor) -> Tensor:
        """A linear layer of the activations' dtype."""
        return torch.nn.functional.linear(x, weight)

    def project(self, x: Tensor, weight: Tensor) -> Tensor:
        """The fused input projection of an attention layer."""
        return self.linear(x, weight)

    def norm(self, x: Tensor, gamma: Tensor) -> Tensor:
        """RMSNorm, fp32 inside."""
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.d.rms_eps) * gamma.float()).to(x.dtype)

    def attn_res(self, norms: tuple[Tensor, Tensor, Tensor], prefix: Tensor, blocks: list[Tensor]) -> Tensor:
        """The sub-layer's input from the running prefix and the saved blocks. ``norms``: norm, query and output norm."""
        norm, query, gamma = (weight.float() for weight in norms)
        sources = torch.stack([*blocks, prefix], 1).float()
        rstd = torch.rsqrt(sources.square().mean(-1) + self.d.rms_eps)
        share = ((sources @ (norm * query)) * rstd).softmax(1)[..., None]
        saved, own = (share[:, :-1] * sources[:, :-1]).sum(1), share[:, -1] * sources[:, -1]
        mixture = saved + own
        mean = self.mean_square(saved, own)
        return (mixture * torch.rsqrt(mean + self.d.rms_eps) * gamma).to(prefix.dtype)

    def mean_square(self, saved: Tensor, own: Tensor) -> Tensor:
        """[rows, 1] mean square of the sum of the two."""
        return (saved + own).square().mean(-1, keepdim=True)

    def kda_gates(self, weights: Weights, f_a: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
        """fp32 log decay [rows, H, D] and beta [rows, H]."""
        heads, dim = self.d.heads, self.d.head_dim
        raw = self.linear(f_a, weights["f_b"]).float() + weights["dt_bias"].float()
        rate = weights["a_log"].float().exp()[:, None]
        return self.d.gate_lower_bound * torch.sigmoid(rate * raw.view(-1, heads, dim)), torch.sigmoid(beta.float())

    def convolve(self, weights: Weights, windows: Tensor) -> Tensor:
        """Causal depthwise convolution and SiLU of [rows, taps, channels]; its result is stored, hence rounded."""
        total = (windows.float() * weights["conv"].float().T).sum(1)
        return self.stored(total * torch.sigmoid(total), windows.dtype)

    def stored(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """fp32 value of what passes from one kernel to the next."""
        return x.to(dtype).float()

    def kda_heads(self, convolved: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """fp32 query, key and value [rows, H, D]: unit vectors, the query scaled."""
        query, key, value = convolved.unflatten(-1, (3, self.d.heads, self.d.head_dim)).unbind(-3)
        query, key = (x * torch.rsqrt(x.square().sum(-1, keepdim=True) + self.d.l2_eps) for x in (query, key))
        return query * self.d.head_dim**-0.5, key, value

    def kda_out(self, weights: Weights, attended: Tensor, gate: Tensor) -> Tensor:
        """Gated norm of fp32 [rows, H, D]; [rows, H * D] of the gate's dtype."""
        attended = self.stored(attended, gate.dtype)
        rstd = torch.rsqrt(attended.square().mean(-1, keepdim=True) + self.d.rms_eps)
        normed = attended * rstd * weights["o_norm"].float()
        return (normed.flatten(1) * torch.sigmoid(gate.float())).to(gate.dtype)

    def kda_decode(
        self,
        weights: Weights,
        cache: Cache,
        parts: tuple[Tensor, Tensor, Tensor],
        slots: Tensor,
        accepted: Tensor,
        continued: Tensor,
    ) -> Tensor:
        """The same number of tokens of several requests, token by token: fp32 [n, tokens, H, D]; states move on.

        ``parts``: qkv, log decay and beta [n, tokens, ...]. ``slots`` [n, 1 + drafts], ``accepted`` tokens of the step before
        [n]. A request that is not ``continued`` [n] begins here, its slots holding another's state: vLLM fills a prompt of one
        token up with drafts that it rejects, so that all requests of the step have as many rows (vLLM 0.32.0,
        ``v1/core/sched/scheduler.py``, ``pad_spec_decode``).
        """
        qkv, log_decay, beta = parts
        conv, state = cache
        taps, home = self.d.conv_width - 1, slots[:, 0]
        kept = torch.where(continued[:, None, None], self.kda_taps(conv, home, accepted), 0)  # a slot may hold another's NaN
        rows = torch.cat([kept, qkv], 1)
        conv[home, : rows.shape[1] - 1] = rows[:, 1:]
        current = torch.where(continued[:, None, None, None], state[self.kda_start(slots, accepted)], 0)
        out = []
        for t in range(qkv.shape[1]):
            query, key, value = self.kda_heads(self.convolve(weights, rows[:, t : t + taps + 1]))
            attended, current = recurrence.step(current, query, key, value, log_decay[:, t].exp(), beta[:, t])
            self.kda_store(state, slots[:, t], current)
            out.append(attended)
        return torch.stack(out, 1)

    def kda_taps(self, conv: Tensor, home: Tensor, accepted: Tensor) -> Tensor:
        """The rows [n, taps, channels] before this step's."""
        return conv[home[:, None], (accepted - 1)[:, None] + torch.arange(self.d.conv_width - 1)]

    def kda_start(self, slots: Tensor, accepted: Tensor) -> Tensor:
        """The slots [n] whose state this step starts from: of the last accepted token."""
        return slots.gather(1, accepted[:, None] - 1)[:, 0]

    def kda_store(self, state: Tensor, slots: Tensor, value: Tensor) -> None:
        """Keeps the states [n, H, V, K] after a token."""
        state[slots] = value

    def kda_prefill(
        self, weights: Weights, cache: Cache, parts: tuple[Tensor, Tensor, Tensor], slot: int, continued: bool
    ) -> Tensor:
        """A piece of one request's prompt: fp32 [n, H, D]. ``parts`` as in ``kda_decode``, of n tokens."""
        qkv, log_decay, beta = parts
        conv, state = cache
        taps = self.d.conv_width - 1
        kept, current = conv[slot, :taps], state[slot]
        if not continued:
            kept, current = torch.zeros_like(kept), torch.zeros_like(current)
        rows = torch.cat([kept, qkv])
        conv[slot, :taps] = rows[-taps:]
        heads = self.kda_heads(self.convolve(weights, rows.unfold(0, taps + 1, 1).transpose(1, 2)))
        query, key, value, decay = (x.transpose(0, 1)[None] for x in (*heads, log_decay))
        out, after = recurrence.chunked(query, key, value, decay, beta.T[None], current[None])
        state[slot] = after[0]
        return out[0].transpose(0, 1)

    def mla_heads(self, weights: Weights, q_a: Tensor, kv: Tensor, k_pe: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key [rows, H, nope + rope] and value [rows, H, v] from the latents; keys are never rotated (NoPE)."""
        query = self.linear(self.norm(q_a, weights["q_norm"]), weights["q_b"]).unflatten(1, (self.d.heads, -1))
        latent = self.norm(kv, weights["kv_norm"])
        nope = torch.einsum("nl,hdl->nhd", latent, weights["w_uk"])
        rest = k_pe[:, None].expand(-1, self.d.heads, -1)
        return query, torch.cat([nope, rest], -1), torch.einsum("nl,hlv->nhv", latent, weights["w_uv"])

    def mla_out(self, attended: Tensor, gate: Tensor) -> Tensor:
        """The attention output [rows, H * v], gated."""
        return (attended.float() * torch.sigmoid(gate.float())).to(gate.dtype)

    def o_proj(self, weight: Tensor, local: Tensor) -> Tensor:
        """The attention's contribution to the residual stream."""
        return self.linear(local, weight)

    def situ(self, gate: Tensor, up: Tensor) -> Tensor:
        """SiTU (``reference.situ``) of fp32 tensors."""
        gated = self.d.situ_beta * torch.tanh(gate / self.d.situ_beta) * torch.sigmoid(gate)
        return gated * self.d.situ_linear_beta * torch.tanh(up / self.d.situ_linear_beta)

    def mlp(self, gate_up: Tensor, down: Tensor, x: Tensor) -> Tensor:
        """A gated MLP."""
        gate, up = self.linear(x, gate_up).float().chunk(2, -1)
        return self.linear(self.situ(gate, up).to(x.dtype), down)

    def route(self, weights: Weights, x: Tensor) -> tuple[Tensor, Tensor]:
        """Chosen experts [rows, top_k] and their fp32 shares: the correction bias takes part in the choice only."""
        scores = torch.sigmoid(self.router_logits(x, weights["router"]))
        chosen = (scores + weights["bias"].float()).topk(self.d.top_k, -1).indices
        share = scores.gather(1, chosen)
        return chosen, share / share.sum(-1, keepdim=True) * self.d.routed_scaling

    def router_logits(self, x: Tensor, weight: Tensor) -> Tensor:
        """fp32 [rows, experts]."""
        return x.float() @ weight.float().T

    def experts(self, weights: Weights, latent: Tensor, chosen: Tensor) -> Tensor:
        """[rows, top_k, latent]: every chosen expert's output, an expert at a time over all its rows."""
        out = torch.empty(*chosen.shape, latent.shape[1], dtype=latent.dtype, device=latent.device)
        for expert in chosen.unique().tolist():
            rows, places = (chosen == expert).nonzero(as_tuple=True)
            out[rows, places] = self.expert(weights["w13"][expert], weights["w2"][expert], latent[rows])
        return out

    def expert(self, w13: Tensor, w2: Tensor, x: Tensor) -> Tensor:
        """One expert's rows."""
        return self.mlp(w13, w2, x)

    def moe(self, weights: Weights, x: Tensor) -> Tensor:
        """A latent mixture of experts beside the shared experts."""
        chosen, share = self.route(weights, x)
        rows = self.experts(weights, self.linear(x, weights["latent_down"]), chosen)
        latent = (rows.float() * share[..., None]).sum(1).to(x.dtype)
        return self.tail(weights, latent, self.shared(weights, x))

    def shared(self, weights: Weights, x: Tensor) -> Tensor:
        """The shared experts, fused into one MLP."""
        return self.mlp(weights["shared_gate_up"], weights["shared_down"], x)

    def tail(self, weights: Weights, latent: Tensor, shared: Tensor) -> Tensor:
        """Norm, up projection, and the shared experts' sum."""
        return self.linear(self.norm(latent, weights["latent_norm"]), weights["latent_up"]) + shared

    def logits(self, hidden: Tensor, head: Tensor) -> Tensor:
        """Logits [rows, vocab] of the activations' dtype."""
        return hidden @ head.T
