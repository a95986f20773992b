"""The stand-in over whole sequences against a plain forward pass in float64, written from the references' equations.

``mixture``, ``norm`` and ``situ`` are those by which ``validate.reference.decode_step`` is checked, too.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.reference.test_decode_step import mixture, norm, situ
from tests.standin.small import SMALL, drawn
from validate.standin import forms, network, weights

pytest.importorskip("tokenizers")
from validate.standin.training import Trainee

TOKENS = torch.randint(0, SMALL.vocab, (1, 37), generator=torch.Generator().manual_seed(3))
# Ten roundings a layer of sums of at most 100 terms, each of which errs by the root of its length.
ALLOWED = 2.0**-24 * 10 * SMALL.layers * 100**0.5


def plain(tokens: Tensor) -> Tensor:
    """Logits [T, vocab] of one row of token ids, in float64."""
    layers, ends = weights.by_layer(SMALL, {name: value.double() for name, value in drawn().items()})
    delta, blocks = ends["embedding"][tokens], []
    prefix = torch.zeros_like(delta)
    for n, w in enumerate(layers):
        prefix = prefix + delta
        x = norm(mixture(blocks, prefix, w["attn_res_norm"], w["attn_res_query"]), w["input_norm"])
        if n % SMALL.attn_res_block == 0:
            blocks, kept = [*blocks, prefix], torch.zeros_like(prefix)
        else:
            kept = prefix
        prefix = kept + (mla if SMALL.is_mla(n) else kda)(w, x) @ w["o"].T
        x = norm(mixture(blocks, prefix, w["mlp_res_norm"], w["mlp_res_query"]), w["post_norm"])
        delta = moe(w, x) if n else gated(x, w["gate_up"], w["down"])
    last = mixture(blocks, prefix + delta, ends["res_norm"], ends["res_query"])
    return norm(last, ends["norm"]) @ ends["head"].T


def gated(x: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    gate, up = (x @ gate_up.T).chunk(2, -1)
    return situ(gate, up) @ down.T


def kda(w: dict[str, Tensor], x: Tensor) -> Tensor:
    heads, dim, width = SMALL.heads, SMALL.head_dim, SMALL.heads * SMALL.head_dim
    qkv, gate, f_a, b = (x @ w["in_proj"].T).split([3 * width, width, dim, heads], -1)
    past = torch.cat([torch.zeros(3, 3 * width).double(), qkv])
    conv = sum(past[t : t + len(x)] * w["conv"][:, t] for t in range(4))
    q, k, v = (conv * torch.sigmoid(conv)).view(-1, 3, heads, dim).unbind(1)
    q, k = (y / (y.pow(2).sum(-1, keepdim=True) + SMALL.l2_eps).sqrt() for y in (q, k))
    raw = (f_a @ w["f_b"].T + w["dt_bias"]).view(-1, heads, dim)
    decay = torch.exp(-5 * torch.sigmoid(w["a_log"].exp()[:, None] * raw))
    state, out = torch.zeros(heads, dim, dim).double(), []
    for t in range(len(x)):
        state = state * decay[t][:, None]
        error = v[t] - torch.einsum("hvk,hk->hv", state, k[t])
        state = state + torch.sigmoid(b[t])[:, None, None] * error[:, :, None] * k[t][:, None]
        out.append(torch.einsum("hvk,hk->hv", state, q[t]) / dim**0.5)
    return norm(torch.stack(out), w["o_norm"]).flatten(1) * torch.sigmoid(gate)


def mla(w: dict[str, Tensor], x: Tensor) -> Tensor:
    """By absorbed queries, as the decode step attends; the stand-in forms keys and values."""
    sizes = [SMALL.q_lora, SMALL.kv_lora, SMALL.qk_rope, SMALL.heads * SMALL.v_head]
    q_a, kv, rest, gate = (x @ w["in_proj"].T).split(sizes, -1)
    query = (norm(q_a, w["q_norm"]) @ w["q_b"].T).view(len(x), SMALL.heads, -1)
    latent = norm(kv, w["kv_norm"])
    absorbed = torch.einsum("nhd,hdl->nhl", query[..., : SMALL.qk_nope], w["w_uk"])
    scores = torch.einsum("nhl,ml->hnm", absorbed, latent) + torch.einsum("nhr,mr->hnm", query[..., SMALL.qk_nope :], rest)
    unseen = torch.ones(len(x), len(x)).triu(1).bool()
    shares = (scores / (SMALL.qk_nope + SMALL.qk_rope) ** 0.5).masked_fill(unseen, -torch.inf).softmax(-1)
    return torch.einsum("hnm,ml,hlv->nhv", shares, latent, w["w_uv"]).flatten(1) * torch.sigmoid(gate)


def moe(w: dict[str, Tensor], x: Tensor) -> Tensor:
    scores, latent = torch.sigmoid(x @ w["router"].T), x @ w["latent_down"].T
    mixed = []
    for row, chosen, score in zip(latent, (scores + w["bias"]).topk(SMALL.top_k).indices.tolist(), scores, strict=True):
        parts = [score[e] * gated(row[None], w["w13"][e], w["w2"][e])[0] for e in chosen]
        mixed.append(sum(parts) / score[chosen].sum())
    return norm(torch.stack(mixed), w["latent_norm"]) @ w["latent_up"].T + gated(x, w["shared_gate_up"], w["shared_down"])


def error() -> float:
    """Of the stand-in in fp32, relative to the logits' 2-norm."""
    exact = plain(TOKENS[0])
    with torch.no_grad():
        found = Trainee(SMALL, drawn())(TOKENS)[0].double()
    return float((found - exact).norm() / exact.norm())


def test_the_whole_forward_pass() -> None:
    assert error() < ALLOWED


def unwritten(run: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """As if the first block alone had been written."""

    def wrong(made: forms.Forms, *given: object) -> Tensor:
        attn_res = made.attn_res
        made.attn_res = lambda norms, prefix, blocks: attn_res(norms, prefix, blocks[:1])  # type: ignore[method-assign]
        return run(made, *given)

    return wrong


def test_a_block_too_few_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "run", unwritten(network.run))
    assert error() > 1000 * ALLOWED


@pytest.mark.parametrize(
    ("form", "wrong"),
    [
        ("mla_out", lambda self, attended, gate: attended),
        ("kda_out", lambda self, own, attended, gate: attended.flatten(1)),
        ("tail", lambda self, own, latent, shared: latent @ own["latent_up"].T + shared),
        ("attn_res", lambda self, norms, prefix, blocks: self.norm(prefix, norms[2])),
        ("situ", lambda self, gate, up: gate * torch.sigmoid(gate) * up),
    ],
)
def test_a_wrong_form_is_found(monkeypatch: pytest.MonkeyPatch, form: str, wrong: Callable[..., Tensor]) -> None:
    monkeypatch.setattr(forms.Forms, form, wrong)
    assert error() > 1000 * ALLOWED
