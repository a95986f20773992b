"""The calls of one decode step's stages, cut from a whole model's weights. No arithmetic: shards and names.

Which layer runs which stage, and on what, is for the caller to say: the reference and the emulated paths each wire the
stages on their own.
"""

from typing import Any

import torch
from torch import Tensor

from validate.model.call import Call
from validate.model.dimensions import Dimensions
from validate.model.microscaling import Packed
from validate.model.tiny import Model, Weights

BF16 = torch.bfloat16


class StageCalls:
    """Calls for ``rows`` rows (all prepared ones), ``q`` of each request, over ``tp`` ranks."""

    def __init__(self, model: Model, tp: int, rows: int, q: int) -> None:
        self.model, self.d, self.tp, self.rows = model, model.dimensions, tp, rows
        self.shape = {"tp": tp, "batch": rows, "q": q, "regime": rows}
        self.row = ((rows, self.d.hidden), BF16)

    def attn_res(self, weights: tuple[Tensor, Tensor, Tensor], delta: Tensor, buffers: Weights, **form: int) -> Call:
        """AttnRes with its norm, query and output norm. ``form``: ``blocks``, ``add``, ``write``, ``final``, ``aux``."""
        shape = {"batch": self.rows, "slots": 0, "add": 1, "write": -1, "final": 0, "aux": 0, **form}
        norm, query, out_norm = weights
        inputs = {"norm": norm, "query": query, "out_norm": out_norm, "eps": self.d.rms_eps, "out_eps": self.d.rms_eps}
        outputs = {"out": self.row, "aux": self.row} if shape["aux"] else {"out": self.row}
        return Call("attn_res", shape, {**inputs, "delta": delta}, outputs, buffers)

    def kda(self, weights: Weights, projected: dict[str, Tensor], rank: int, state: dict[str, Tensor]) -> Call:
        """KDA of one rank. ``state``: its ``conv`` and ``state`` buffers, ``slots`` and ``accepted``."""
        d, heads = self.d, self.d.heads // self.tp
        width = heads * d.head_dim
        own = slice(rank * width, (rank + 1) * width)
        own_heads = slice(rank * heads, (rank + 1) * heads)
        inputs = {
            "x": torch.cat([projected[name][:, own] for name in "qkv"], 1),
            "gate": projected["gate"][:, own],
            "f_a": projected["f_a"],
            "beta": projected["beta"][:, own_heads],
            "f_b": weights["f_b"][own],
            "conv_weight": weights["conv"].view(3, -1, d.conv_width)[:, own].reshape(-1, d.conv_width),
            "a_log": weights["a_log"][own_heads],
            "dt_bias": weights["dt_bias"][own],
            "norm": weights["o_norm"],
            "slots": state["slots"],
            "accepted": state["accepted"],
            "lower_bound": d.gate_lower_bound,
            "l2_eps": d.l2_eps,
            "norm_eps": d.rms_eps,
        }
        buffers = {"conv": state["conv"], "state": state["state"]}
        return Call("kda", self.shape, inputs, {"out": ((self.rows, width), BF16)}, buffers)

    def mla(self, weights: Weights, projected: dict[str, Tensor], rank: int, cache: dict[str, Tensor]) -> Call:
        """MLA of one rank, whole context. ``cache``: the paged ``cache``, ``slots``, ``table``, ``lengths`` and ``totals``."""
        d, heads = self.d, self.d.heads // self.tp
        gate = projected["gate"][:, rank * heads * d.v_head : (rank + 1) * heads * d.v_head]
        per_head = d.qk_nope + d.qk_rope
        inputs = {
            "x": torch.cat([projected["q_a"], projected["kv"], projected["k_pe"], gate], 1),
            "q_norm": weights["q_norm"],
            "kv_norm": weights["kv_norm"],
            "q_b": weights["q_b"][rank * heads * per_head : (rank + 1) * heads * per_head],
            "w_uk": weights["w_uk"][rank * heads : (rank + 1) * heads],
            "w_uv": weights["w_uv"][rank * heads : (rank + 1) * heads],
            **{name: cache[name] for name in ("slots", "table", "lengths", "totals")},
            "interleave": 1,
            "scale": d.mla_scale,
            "eps": d.rms_eps,
            **dict.fromkeys(("q_scale", "k_scale", "q_scale_inv", "k_scale_inv"), 1.0),
        }
        outputs = {
            "query": ((self.rows, heads, d.mla_row), cache["cache"].dtype),
            "out": ((self.rows, heads * d.v_head), BF16),
        }
        shape = {**self.shape, "dcp": 1, "interleave": 1, "block": cache["cache"].shape[2]}
        return Call("mla", shape, inputs, outputs, {"cache": cache["cache"]})

    def o_proj(self, weight: Tensor, local: list[Tensor], prefix: Tensor, boxes: Weights, parity: int, write: bool) -> Call:
        """The o-projection of all ranks. Each rank's row stands at its own columns of a full-width row, zeros elsewhere."""
        width = local[0].shape[1]
        spread = torch.zeros(self.tp * self.rows, self.tp * width, dtype=local[0].dtype)
        for rank, part in enumerate(local):
            spread[rank * self.rows : (rank + 1) * self.rows, rank * width : (rank + 1) * width] = part
        shape = {**self.shape, "write": int(write), "parity": parity}
        ranks = ((self.tp, *self.row[0]), BF16)
        return Call("o_proj", shape, {"local": spread, "weight": weight}, {"delta": ranks}, {"prefix": prefix, **boxes})

    def router(self, weights: Weights, x: Tensor) -> Call:
        """The router of all ranks."""
        i = {"x": x, "gate": weights["router"], "bias": weights["bias"], "top_k": self.d.top_k, "live": self.rows}
        shape = (self.tp, self.rows, self.d.top_k)
        outputs = {"ids": (shape, torch.int32), "weights": (shape, BF16)}
        return Call("router", self.shape, {**i, "scaling": self.d.routed_scaling}, outputs)

    def latent_down(self, weights: Weights, x: Tensor) -> Call:
        """The latent down-projection of all ranks."""
        outputs = {"out": ((self.tp, self.rows, self.d.latent), BF16)}
        return Call("latent_down", self.shape, {"x": x, "weight": weights["latent_down"], "live": self.rows}, outputs)

    def experts(self, w13: Packed, w2: Packed, latent: Tensor, ids: Tensor) -> Call:
        """One rank's shards of the routed experts."""
        inputs = {"latent": latent, "ids": ids, "w13": w13, "w2": w2, "live": self.rows, **_bounds(self.d)}
        outputs = {"out": ((self.rows * self.d.top_k, self.d.latent), BF16)}
        return Call("experts", self.shape, inputs, outputs)

    def gated_mlp(self, stage: str, weights: tuple[Tensor, Tensor, Tensor], x: Tensor, rank: int) -> Call:
        """One rank of ``shared_experts`` or ``dense_mlp``: gate, up and down projection."""
        gate, up = (weight.chunk(self.tp)[rank] for weight in weights[:2])
        down = weights[2].chunk(self.tp, 1)[rank].contiguous()
        inputs = {"x": x, "gate_up": torch.cat([gate, up]), "down": down, **_bounds(self.d)}
        return Call(stage, self.shape, inputs, {"partial": self.row})

    def moe_tail(self, weights: Weights, routed: Tensor, shares: Tensor, shared: Tensor, boxes: Weights) -> Call:
        """The tail of all ranks. routed [ranks, rows, top_k, latent], shares [rows, top_k], shared [ranks, rows, hidden]."""
        inputs = {
            "routed": routed,
            "weights": shares,
            "shared": shared,
            "norm": weights["latent_norm"],
            "up": weights["latent_up"],
            "eps": self.d.rms_eps,
        }
        shape = {**self.shape, "rearm": self.rows}
        return Call("moe_tail", shape, inputs, {"out": ((self.tp, *self.row[0]), BF16)}, boxes)


def expert_shards(weights: Weights, tp: int) -> list[tuple[Packed, Packed]]:
    """W13 (gate rows, then up rows) and W2 of every rank: hidden channels are dealt to the ranks."""
    found = []
    for rank in range(tp):
        gate, up = ([weights[n + s].chunk(tp, 1)[rank] for s in ("", "_scale")] for n in ("expert_gate", "expert_up"))
        down = [weights["expert_down" + s].chunk(tp, 2)[rank].contiguous() for s in ("", "_scale")]
        w13 = Packed(torch.cat([gate[0], up[0]], 1), torch.cat([gate[1], up[1]], 1))
        found.append((w13, Packed(*down)))
    return found


def _bounds(d: Dimensions) -> dict[str, Any]:
    return {"beta": d.situ_beta, "linear_beta": d.situ_linear_beta}
