"""The whole decode step of Kimi K3, several steps in a row, in float64: every stage's reference, wired as the model is.

    x       = embedding of the token; it becomes the prefix, and block 0
    h       = AttnRes(prefix, blocks)                 before attention; the prefix first takes the last MLP's output
    delta   = o-projection(KDA or MLA(h W_in))        summed over ranks
    h       = AttnRes(prefix + delta, blocks)         before the MLP; after a block-write layer's attention prefix is delta
    delta   = dense MLP(h) in layer 0, else tail(experts(h), shared experts(h))
    logits  = norm(AttnRes(prefix + delta, blocks)) W_head

Layers 0, 12, 24, ... write their incoming prefix as a block (vLLM 0.33.0, models/kimi_k3/nvidia/model.py ``KimiDecoderLayer``).
Rounding points are those of the stages; a step on the default path has the default's, whichever path the subject is.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from validate.model.call import Call, Expected, ExpectedChoice
from validate.model.decoding import Step
from validate.model.stage_calls import StageCalls
from validate.reference import (
    attn_res,
    dense_mlp,
    experts,
    kda,
    latent_down,
    mla,
    moe_tail,
    o_proj,
    router,
    shared_experts,
)
from validate.reference.points import U32, Point, Points

BF16 = torch.bfloat16
Stage = Callable[[Call, Points], dict[str, Expected]]
LINEAR = Point(BF16, BF16, "bf16 linear layers of both paths (model.py; gemm/splitk.py rounds once)")
FP32 = Point(None, None, "fp32 before the bf16 logits")
# Two correct paths round eight intermediates a layer and more (projections, core, delta, prefix, router's and experts' rows,
# tail), each by up to half a bf16 ulp, 2**-9 of itself, and not the same ones; and they quantise the experts' hidden values by
# different block scales: E4M3 numbers are up to 2**-3 apart, whose uniform rounding has a deviation of 2**-3 / sqrt(12).
# Unrelated errors add in quadrature.
ROUNDINGS = 8
BY_LAYER = ROUNDINGS * 2.0**-18 + 2.0**-6 / 12
# A recurrent state decays by exp(-5 sigmoid(rate * gate)), with rates to 4: a gate's relative drift comes out 5/4 * 4 times.
STATE_GAIN = 5.0
DRIFT = Point(None, None, "roundings of the layers before")


def reference(call: Call, points: Points) -> dict[str, Expected | ExpectedChoice]:
    """Outputs ``logits`` [live rows of all steps, vocab], ``tokens`` [the same, 1], ``aux`` [the same, hidden], and the caches.

    Also ``ids`` [MoE layers, the same, top_k], and ``planned`` [steps, 1], which is 1 where a step ran specialized. Inputs:
    ``model``, ``experts`` (its ranks' shards by layer), ``tp``, ``deployment``, ``steps``, ``table`` (int32 [requests, pages]),
    ``aux_layer``: the layer whose incoming prefix is the drafter's auxiliary stream. Buffers: ``model.decoding.caches``.
    """
    buffers = {
        "conv": call.buffers["conv"].double(),
        "state": call.buffers["state"].double(),
        "cache": call.buffers["cache"].clone(),
    }
    path, found, start = points.path, [], 0
    for step in call.inputs["steps"]:
        if path != "common":
            points.path = path if step.specialized else "default"
        chosen = points.given["ids"][:, start : start + step.live] if "ids" in points.given else None
        found.append(_Step(call, points, step, buffers, chosen).run())
        start += step.live
    points.path = path
    logits, aux = (torch.cat(parts) for parts in list(zip(*found, strict=True))[:2])
    scores_of_experts, errors = (torch.cat(parts, 1).flatten(0, 1) for parts in list(zip(*found, strict=True))[2:])
    # The greedy token is judged on the logits that the subject formed; those are judged themselves.
    scores = points.given["logits"].double() if "logits" in points.given else logits
    d = call.inputs["model"].dimensions
    roundings = ROUNDINGS * d.layers

    def drifted(value: Tensor, kept: int, gain: float = 1.0) -> Tensor:
        """``value`` with the drift of the step's roundings; its level is over all but the first ``kept`` dimensions."""
        level = value.square().flatten(kept).mean(-1).sqrt().view(*value.shape[:kept], *[1] * (value.dim() - kept))
        return points(DRIFT, value, gain * (BY_LAYER * d.layers) ** 0.5 * torch.maximum(level, value.abs()))

    kda_slots = torch.cat([step.slots[step.slots > 0] for step in call.inputs["steps"]]).unique().long()
    homes = torch.cat([step.slots[step.slots[:, 0] > 0, 0] for step in call.inputs["steps"]]).unique().long()
    planned = torch.tensor([[float(step.specialized and path != "default")] for step in call.inputs["steps"]]).double()
    everywhere = (slice(None), slice(None))
    written = torch.cat([step.cache_slots[step.cache_slots >= 0] for step in call.inputs["steps"]]).unique()
    block = buffers["cache"].shape[3]
    rows = (slice(None), slice(None), written // block, written % block)
    return {
        "logits": Expected(drifted(logits, 1), roundings=roundings),
        "tokens": ExpectedChoice(scores, torch.zeros_like(scores), 1),
        "ids": ExpectedChoice(scores_of_experts, errors, d.top_k),
        "aux": Expected(drifted(aux, 1), roundings=roundings),
        "planned": Expected(planned, exact=True),
        "cache": Expected(drifted(buffers["cache"][rows].double(), 1), rows, roundings=roundings),
        "state": Expected(
            drifted(buffers["state"][:, :, kda_slots], 4, STATE_GAIN), (*everywhere, kda_slots), roundings=roundings
        ),
        "conv": Expected(drifted(buffers["conv"][:, :, homes], 3), (*everywhere, homes), roundings=roundings),
    }


class _Step:
    """One step: ``buffers`` are read and updated."""

    def __init__(self, call: Call, points: Points, step: Step, buffers: dict[str, Tensor], chosen: Tensor | None) -> None:
        self.points, self.step, self.buffers = points, step, buffers
        self.chosen = chosen  # the subject's experts [MoE layers, live rows, top_k]: what follows is judged on its choice
        self.scores: list[Tensor] = []
        self.errors: list[Tensor] = []
        self.model, self.tp = call.inputs["model"], call.inputs["tp"]
        self.d = self.model.dimensions
        self.calls = StageCalls(self.model, self.tp, step.rows, step.q)
        self.table, self.aux_layer = call.inputs["table"], call.inputs["aux_layer"]
        self.shards = call.inputs["experts"]
        self.kda_layer = self.mla_layer = 0

    def run(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Of the live rows: logits, auxiliary stream, router scores [MoE layers, rows, experts], their error bounds."""
        ends, rows = self.model.ends, self.step.rows
        blocks = torch.zeros(rows, self.d.attn_res_blocks, self.d.hidden, dtype=torch.float64)
        prefix, saved = torch.zeros(rows, self.d.hidden, dtype=torch.float64), 0
        delta, add, aux = ends["embedding"][self.step.tokens].double(), 0, torch.empty(0)
        for n, weights in enumerate(self.model.layers):
            writes = n % self.d.attn_res_block == 0
            form = {"blocks": saved, "add": add, "write": saved if writes else -1, "aux": int(n == self.aux_layer)}
            norms = weights["attn_res_norm"], weights["attn_res_query"], weights["input_norm"]
            x, found = self.attn_res(norms, delta, prefix, blocks, form)
            prefix = found["prefix"].value
            aux = prefix if n == self.aux_layer else aux
            if writes:
                blocks[:, saved] = prefix
                saved += 1
            local = self.mla(weights, x) if self.d.is_mla(n) else self.kda(weights, x)
            delta = self.o_proj(weights["o"], local)
            norms = weights["mlp_res_norm"], weights["mlp_res_query"], weights["post_norm"]
            x, found = self.attn_res(norms, delta, prefix, blocks, {"blocks": saved, "add": int(not writes)})
            prefix = found["prefix"].value
            delta, add = (self.dense(weights, x) if n == 0 else self.moe(n, weights, x)), 1
        norms = ends["res_norm"], ends["res_query"], ends["norm"]
        x, _ = self.attn_res(norms, delta, prefix, blocks, {"blocks": saved, "final": 1})
        live = self.step.live
        product, error = self.fresh().matmul(x[:live], ends["head"])
        return self.points(FP32, product, error), aux[:live], torch.stack(self.scores), torch.stack(self.errors)

    def attn_res(
        self, norms: tuple[Tensor, Tensor, Tensor], delta: Tensor, prefix: Tensor, blocks: Tensor, form: dict[str, int]
    ) -> tuple[Tensor, dict[str, Expected]]:
        found = attn_res.reference(self.calls.attn_res(norms, delta, {"prefix": prefix, "blocks": blocks}, **form), self.fresh())
        # The stage's reference leaves its output before the last rounding.
        return found["out"].value.to(BF16).double(), found

    def fresh(self, given: dict[str, Tensor] | None = None) -> Points:
        return self.points.of_a_stage(given)

    def linear(self, x: Tensor, *weights: Tensor) -> list[Tensor]:
        return [self.points(LINEAR, *self.fresh().matmul(x, weight)) for weight in weights]

    def kda(self, weights: dict[str, Tensor], x: Tensor) -> list[Tensor]:
        names = ("q", "k", "v", "gate", "f_a", "beta")
        projected = dict(zip(names, self.linear(x, *(weights[name] for name in names)), strict=True))
        local = []
        for rank in range(self.tp):
            state = {name: self.buffers[name][self.kda_layer, rank] for name in ("conv", "state")}
            state.update(slots=self.step.slots, accepted=self.step.accepted)
            found = kda.reference(self.calls.kda(weights, projected, rank, state), self.fresh())
            for name in ("conv", "state"):
                state[name][found[name].where] = found[name].value
            local.append(found["out"].value.to(BF16).double())
        self.kda_layer += 1
        return local

    def mla(self, weights: dict[str, Tensor], x: Tensor) -> list[Tensor]:
        names = ("q_a", "kv", "k_pe", "gate")
        projected = dict(zip(names, self.linear(x, *(weights[name] for name in names)), strict=True))
        lengths = self.step.lengths
        cache = {"cache": self.buffers["cache"][self.mla_layer], "table": self.table, "slots": self.step.cache_slots}
        cache.update(lengths=lengths, totals=lengths[0])
        local = []
        for rank in range(self.tp):
            found = mla.reference(self.calls.mla(weights, projected, rank, cache), self.fresh())
            local.append(found["out"].value.to(BF16).double())
        where = found["cache"].where
        cache["cache"][where] = found["cache"].value.to(cache["cache"].dtype)
        self.mla_layer += 1
        return local

    def o_proj(self, weight: Tensor, local: list[Tensor]) -> Tensor:
        prefix = torch.zeros(self.tp, self.step.rows, self.d.hidden, dtype=torch.float64)
        call = self.calls.o_proj(weight, local, prefix, {}, 0, False)
        return o_proj.reference(call, self.fresh())["delta"].value.to(BF16).double()

    def dense(self, weights: dict[str, Tensor], x: Tensor) -> Tensor:
        mlp = weights["gate_proj"], weights["up_proj"], weights["down_proj"]
        total = self.partials("dense_mlp", dense_mlp.reference, mlp, x)
        return self.points(LINEAR, total.sum(0), U32 * self.tp**0.5 * total.norm(dim=0))

    def partials(self, stage: str, stage_reference: Stage, mlp: tuple[Tensor, Tensor, Tensor], x: Tensor) -> Tensor:
        """bf16 partials [ranks, rows, hidden] of a gated MLP."""
        found = [
            stage_reference(self.calls.gated_mlp(stage, mlp, x, rank), self.fresh())["partial"].value.to(BF16).double()
            for rank in range(self.tp)
        ]
        return torch.stack(found)

    def moe(self, n: int, weights: dict[str, Tensor], x: Tensor) -> Tensor:
        call = self.calls.router(weights, x)
        choice = router.reference(call, self.fresh())["ids"]
        assert isinstance(choice, ExpectedChoice)
        ids = choice.scores.topk(choice.count).indices.int()
        live = self.step.live
        if self.chosen is not None:
            ids[:live] = self.chosen[len(self.scores)].clamp(0, self.d.experts - 1)
        shares = router.reference(call, self.fresh({"ids": ids[None]}))["weights"]
        assert isinstance(shares, Expected)
        # x carries the drift of the layers before; three deviations of it, times the sigmoid's largest slope.
        drift = 3 * (BY_LAYER * (n + 1)) ** 0.5 / 4
        terms = (x[:live].square() @ weights["router"].double().square().T).sqrt()
        self.scores.append(choice.scores[:live])
        self.errors.append(choice.error[:live] + drift * terms)
        latent = latent_down.reference(self.calls.latent_down(weights, x), self.fresh())["out"].value.to(BF16).double()
        rows = [
            experts.reference(self.calls.experts(w13, w2, latent, ids), self.fresh())["out"].value.to(BF16).double()
            for w13, w2 in self.shards[n]
        ]
        per_rank = torch.stack(rows).view(self.tp, self.step.rows, self.d.top_k, -1)
        mlp = weights["shared_gate"], weights["shared_up"], weights["shared_down"]
        shared = self.partials("shared_experts", shared_experts.reference, mlp, x)
        boxes = {f"{name}_old": torch.zeros(self.tp, self.step.rows, 2) for name in ("latent", "shared")}
        call = self.calls.moe_tail(weights, per_rank, shares.value.to(BF16).double(), shared, boxes)
        return moe_tail.reference(call, self.fresh())["out"].value.to(BF16).double()
