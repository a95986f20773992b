"""The whole decode step as an engine runs it: per step the default or the specialized stages, on the same caches."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from validate.model.call import Call
from validate.model.decoding import Step
from validate.model.stage_calls import StageCalls
from validate.paths.dispatch import Deployment, plan
from validate.paths.emulated.arithmetic import chain_sum, gemm
from validate.paths.emulated.mailbox import armed

BF16 = torch.bfloat16


def stages(specialized: bool) -> Mapping[str, Any]:
    """The sound stages of a path."""
    from validate.paths import emulated  # that module lists this one, too

    return emulated.SPECIALIZED if specialized else emulated.DEFAULT


class Layers:
    """The stages of one step on one path, with the step's own prefix, blocks and mailboxes."""

    def __init__(self, call: Call, step: Step, stages: Mapping[str, Any]) -> None:
        self.step, self.stages, self.buffers = step, stages, call.buffers
        self.model, self.tp = call.inputs["model"], call.inputs["tp"]
        self.d = self.model.dimensions
        self.calls = StageCalls(self.model, self.tp, step.rows, step.q)
        self.table, self.experts = call.inputs["table"], call.inputs["experts"]
        self.prefix = torch.zeros(step.rows, self.d.hidden, dtype=BF16)
        self.blocks = torch.full((step.rows, self.d.attn_res_blocks, self.d.hidden), torch.nan, dtype=BF16)
        self.kda_layer = self.mla_layer = self.parity = 0
        self.chosen: list[Tensor] = []  # experts of each MoE layer

    def run(self, call: Call) -> Call:
        """A stage on a copy of the call."""
        fresh = call.fresh()
        self.stages[call.stage]()(fresh)
        return fresh

    def attn_res(self, norms: tuple, delta: Tensor, form: dict[str, int]) -> tuple[Tensor, Tensor | None]:
        """Output and auxiliary stream; prefix and blocks move on."""
        after = self.run(self.calls.attn_res(norms, delta, {"prefix": self.prefix, "blocks": self.blocks}, **form))
        self.prefix, self.blocks = after.buffers["prefix"], after.buffers["blocks"]
        return after.outputs["out"], after.outputs.get("aux")

    def attention(self, layer: int, weights: dict[str, Tensor], x: Tensor) -> list[Tensor]:
        """bf16 rows of every rank."""
        return self.mla(weights, x) if self.d.is_mla(layer) else self.kda(weights, x)

    def linear(self, x: Tensor, weights: dict[str, Tensor], names: tuple[str, ...]) -> dict[str, Tensor]:
        """bf16 projections by name."""
        return {name: gemm(x, weights[name]).to(BF16) for name in names}

    def kda(self, weights: dict[str, Tensor], x: Tensor) -> list[Tensor]:
        """KDA of every rank."""
        projected = self.linear(x, weights, ("q", "k", "v", "gate", "f_a", "beta"))
        local = []
        for rank in range(self.tp):
            held = {name: self.buffers[name][self.kda_layer, rank] for name in ("conv", "state")}
            state: dict[str, Any] = {**held, "slots": self.step.slots, "accepted": self.step.accepted}
            after = self.run(self.calls.kda(weights, projected, rank, state))
            self.keep(held, after.buffers)
            local.append(after.outputs["out"])
        self.kda_layer += 1
        return local

    def keep(self, held: dict[str, Tensor], after: Mapping[str, Tensor]) -> None:
        """The engine's cache after a stage: what the stage left in its copy."""
        for name, tensor in held.items():
            tensor.copy_(after[name])

    def mla(self, weights: dict[str, Tensor], x: Tensor) -> list[Tensor]:
        """MLA of every rank; all insert the same rows."""
        projected = self.linear(x, weights, ("q_a", "kv", "k_pe", "gate"))
        held, lengths = self.buffers["cache"][self.mla_layer], self.step.lengths
        cache = {"cache": held, "table": self.table, "slots": self.step.cache_slots}
        cache.update(lengths=lengths, totals=lengths[0])
        after = [self.run(self.calls.mla(weights, projected, rank, cache)) for rank in range(self.tp)]
        held.copy_(after[0].buffers["cache"])
        self.mla_layer += 1
        return [one.outputs["out"] for one in after]

    def o_proj(self, weight: Tensor, local: list[Tensor]) -> Tensor:
        """The o-projection's sum, as rank 0 has it."""
        rows, hidden = self.step.rows, self.d.hidden
        prefix = torch.zeros(self.tp, rows, hidden, dtype=BF16)
        boxes = {"mailbox": armed((2, self.tp, rows, hidden)), "gather": armed((2, rows, hidden))}
        self.parity = 1 - self.parity
        return self.run(self.calls.o_proj(weight, local, prefix, boxes, self.parity, False)).outputs["delta"][0]

    def dense(self, weights: dict[str, Tensor], x: Tensor) -> Tensor:
        """The dense MLP, reduced over ranks."""
        mlp = weights["gate_proj"], weights["up_proj"], weights["down_proj"]
        return chain_sum(self.partials("dense_mlp", mlp, x).float()).to(BF16)

    def partials(self, stage: str, mlp: tuple[Tensor, Tensor, Tensor], x: Tensor) -> Tensor:
        """bf16 partials [ranks, rows, hidden] of a gated MLP."""
        ranks = range(self.tp)
        return torch.stack([self.run(self.calls.gated_mlp(stage, mlp, x, r)).outputs["partial"] for r in ranks])

    def moe(self, layer: int, weights: dict[str, Tensor], x: Tensor) -> Tensor:
        """The MoE layer, as rank 0 has it."""
        routed = self.run(self.calls.router(weights, x)).outputs
        self.chosen.append(routed["ids"][0])
        latent = self.run(self.calls.latent_down(weights, x)).outputs["out"][0]
        rows = [self.run(self.calls.experts(w13, w2, latent, routed["ids"][0])).outputs["out"] for w13, w2 in self.experts[layer]]
        per_rank = torch.stack(rows).view(self.tp, self.step.rows, self.d.top_k, -1)
        mlp = weights["shared_gate"], weights["shared_up"], weights["shared_down"]
        shared = self.partials("shared_experts", mlp, x)
        widths = {"latent": self.d.latent, "shared": self.d.hidden}
        boxes = {f"{name}_old": armed((self.tp, self.step.rows, width)) for name, width in widths.items()}
        boxes["latent"] = armed((self.tp, self.step.rows, self.d.latent))
        boxes["shared_box"] = armed((self.tp, self.step.rows, self.d.hidden))
        call = self.calls.moe_tail(weights, per_rank, routed["weights"][0], shared, boxes)
        return self.run(call).outputs["out"][0]


class DefaultDecodeStep:
    """vLLM's model loop (vLLM 0.33.0, models/kimi_k3/nvidia/model.py) over the default path's stages."""

    layers = Layers

    def __call__(self, call: Call) -> None:
        """Runs all steps; ``reference.decode_step.reference`` says what the tensors are."""
        start = 0
        for n, step in enumerate(call.inputs["steps"]):
            specialized = self.plan(step, call.inputs["deployment"])
            call.outputs["planned"][n] = float(specialized)
            logits, aux, ids = self.step(call, step, specialized)
            rows = slice(start, start + step.live)
            call.outputs["logits"][rows], call.outputs["aux"][rows] = logits, aux
            call.outputs["ids"][:, rows] = ids
            call.outputs["tokens"][rows] = self.greedy(logits)
            start += step.live

    def plan(self, step: Step, deployment: Deployment) -> bool:
        """Whether a step runs specialized."""
        return False

    def step(self, call: Call, step: Step, specialized: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Logits, auxiliary stream and experts of the live rows."""
        layers = self.layers(call, step, stages(specialized))
        d, ends = layers.d, layers.model.ends
        delta, add, saved, aux = ends["embedding"][step.tokens], 0, 0, torch.empty(0)
        for n, weights in enumerate(layers.model.layers):
            writes = self.writes_block(n, d.attn_res_block)
            norms = weights["attn_res_norm"], weights["attn_res_query"], weights["input_norm"]
            form = {
                "blocks": saved,
                "add": add,
                "write": saved if writes else -1,
                "aux": int(n == self.aux_layer(call)),
            }
            x, stream = layers.attn_res(norms, delta, form)
            aux = aux if stream is None else stream
            saved += writes
            local = layers.attention(n, weights, x)
            delta = layers.o_proj(weights["o"], local)
            norms = weights["mlp_res_norm"], weights["mlp_res_query"], weights["post_norm"]
            x, _ = layers.attn_res(norms, delta, {"blocks": saved, "add": int(not self.restarts(n, writes))})
            delta, add = (layers.dense(weights, x) if n == 0 else layers.moe(n, weights, x)), 1
        norms = ends["res_norm"], ends["res_query"], ends["norm"]
        x, _ = layers.attn_res(norms, delta, {"blocks": saved, "final": 1})
        logits = gemm(x[: step.live], ends["head"]).to(BF16)
        return logits, aux[: step.live], torch.stack(layers.chosen)[:, : step.live]

    def aux_layer(self, call: Call) -> int:
        """The layer whose incoming prefix is the auxiliary stream."""
        return int(call.inputs["aux_layer"])

    def writes_block(self, layer: int, block: int) -> bool:
        """Whether a layer saves its incoming prefix."""
        return layer % block == 0

    def restarts(self, layer: int, writes: bool) -> bool:
        """Whether the prefix is the attention's output alone."""
        return writes

    def greedy(self, logits: Tensor) -> Tensor:
        """int32 [rows, 1]: the largest logit, the lower id among equal ones."""
        return logits.float().argmax(-1, keepdim=True).int()


class SpecializedDecodeStep(DefaultDecodeStep):
    """``SpecializedDecode.run`` for the steps that ``plan`` serves, the default loop for the others."""

    def plan(self, step: Step, deployment: Deployment) -> bool:
        """As ``paths.dispatch`` says."""
        return plan(step.requests, deployment).specialized
