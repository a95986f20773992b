"""The routed experts by vLLM's own kernels: the persistent ``ExpertsKernel``, and ``ClusterExperts`` for small batches.

They need SM100 and one GPU. The kernels are those of a deployment, compiled for 896 experts: the case's few lie between
others whose scales are NaN. What other ranks publish, the latent and at TP16 the small batch's ids, is put into mailboxes.
"""

from typing import Any

import torch
from torch import Tensor

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.model.microscaling import Packed
from validate.paths.emulated.front import uses_small_batch
from validate.paths.vllm import binding, expert_weights, route_situ
from validate.paths.vllm.adapter import Composed, Needs, Prepared, Run, fewer_rows
from validate.paths.vllm.entries import CHAIN, EXPERTS, FRONT, POLICY, imported
from validate.paths.vllm.mailboxes import check_armed
from validate.paths.vllm.source import Source

PLANNED_FROM = 9  # rows: the kernel takes a plan, MXFP8 rows that RouteSitu writes while it copies the latent
PUBLISHED_FROM = {8: 5, 16: 9}  # rows (moe/tail_runtime.py ``published``)
CONSUMED = -1  # an id of the small batch's mailbox that is armed again


class SpecializedExperts(Composed):
    """``PreparedMoE.finish`` and ``SmallBatchChain.run`` up to the experts' rows: one kernel, above 8 rows up to three."""

    needs = Needs(capability=(10, 0))

    def missing(self, call: Call, source: Source) -> str | None:
        """Other TP sizes, and kernels of fewer rows than the call."""
        return fewer_rows(call) if call.shape["tp"] in PUBLISHED_FROM else "the specialized path needs 8 or 16 ranks"

    def note(self, call: Call) -> str | None:
        """Where a deployment's variant needs multicast, or peers: it also does what belongs to the MoE tail."""
        published = call.shape["regime"] >= PUBLISHED_FROM[call.shape["tp"]]
        return "the variant that writes the rows; a deployment's also weighs, sums and publishes them" if published else None

    def compose(self, call: Call, run: Run) -> None:
        """``reference.experts.reference`` says what the tensors are."""
        i, rows = call.inputs, call.shape["regime"]
        # Rows that pad the step to its CUDA graph's are routed and computed, too: here they repeat the last live one.
        live = torch.arange(rows).clamp_max(call.shape["batch"] - 1)
        latent = i["latent"][live]
        ids = expert_weights.places(len(i["w13"].codes)).int()[i["ids"].long()][live]
        out = torch.full((rows * K3.top_k, K3.latent), torch.nan, dtype=torch.bfloat16)
        shape, outputs = {**call.shape, "batch": rows}, {"out": out}
        inputs = {name: i[name] for name in ("w13", "w2", "beta", "linear_beta")}
        if _polled(call):
            buffers = {"latent": latent[None] + 0.0, "ids": ids[None]}  # + 0: without -0, the mailboxes' sentinel
            run(_PolledCluster(), Call("experts", shape, inputs, {}, buffers, outputs))
            # The latent is armed again by the next layer's front.
            check_armed("the ids' mailbox", buffers["ids"], sentinel=CONSUMED)
        elif rows >= PLANNED_FROM:
            box = route_situ.front_mailbox(rows)  # without logits: RouteSitu routes, too, but the call says who is chosen
            box[0, :rows, : K3.latent] = latent + 0.0
            run(_Planned(), Call("experts", shape, inputs | {"ids": ids}, {}, {"mailbox": box}, outputs))
            check_armed("the front's mailbox", box)
        else:
            part = _Cluster() if uses_small_batch(call.shape["tp"], rows) else _Persistent()
            run(part, Call("experts", shape, inputs | {"ids": ids, "latent": latent}, {}, {}, outputs))
        call.outputs["out"].copy_(out[: len(call.outputs["out"])])


class _Persistent:
    """``PersistentExperts`` as ``PreparedMoE`` of moe/prepared.py binds it, up to 8 rows."""

    step = ("latent", "ids")

    def prepare(self, call: Call, source: Source) -> Prepared:
        experts = _prepared(call, source)[0]
        i = call.inputs
        return Prepared(lambda: experts.run(i["latent"], i["ids"]))


class _Planned:
    """The same above 8 rows: RouteSitu writes the plan, then the tokens are grouped by experts (9 to 32 rows: by a kernel)."""

    step = ("ids",)

    def prepare(self, call: Call, source: Source) -> Prepared:
        experts, plan = _prepared(call, source)
        i, rows, tp, box = call.inputs, call.shape["batch"], call.shape["tp"], call.buffers["mailbox"]
        latent = torch.full((rows, K3.latent), float("nan"), dtype=torch.bfloat16, device=box.device)
        scalars = (1.0, i["beta"], i["linear_beta"])
        used = {"mailbox": box, "latent": latent}
        route = route_situ.bound(source, (True, True, False), rows, K3.shared_intermediate // tp, scalars, used, plan)

        def launch() -> None:
            route()
            experts.group(i["ids"])
            experts.run(latent, i["ids"])

        return Prepared(launch, (box[:, :rows],))


class _Cluster:
    """``ClusterExpertsTP8`` as ``SmallBatchChain`` of moe/small_batch/chain.py binds it: one row, and nothing to poll."""

    step = ("latent", "ids")

    def prepare(self, call: Call, source: Source) -> Prepared:
        experts, out = _experts(call, source), call.outputs["out"]
        counter = torch.zeros(1, dtype=torch.int32, device=out.device)
        operands = call.inputs["latent"].view(-1), call.inputs["ids"].view(-1), experts.maps[256:640].view(3, 128)
        return _cluster(source, "experts_tp8", experts, (*operands, *_scales(experts), out, counter))


class _PolledCluster:
    """``ClusterExpertsTP16`` as ``SmallBatchChain`` binds it: one row or two, latent and ids through mailboxes."""

    step = ()

    def prepare(self, call: Call, source: Source) -> Prepared:
        experts, latent, ids = _experts(call, source), call.buffers["latent"], call.buffers["ids"]
        operands = latent.view(-1), ids.view(-1), experts.maps[:256].view(2, 128), *_scales(experts), call.outputs["out"]
        return _cluster(source, "experts_tp16", experts, operands, call.shape["batch"], boxes=(latent, ids))


def _cluster(
    source: Source, kind: str, experts: Any, tensors: tuple[Tensor, ...], *size: int, boxes: tuple[Tensor, ...] = ()
) -> Prepared:
    """The launch of a cluster kernel. It holds ``experts`` and ``tensors``: views for kernels do not."""
    code, views = imported(source, CHAIN, "_launch")(kind, tensors, *size)
    stream = binding.host(source).stream
    return Prepared(lambda: code(*views, *experts.scalars, stream(tensors[0].device)), boxes)


def _prepared(call: Call, source: Source) -> tuple[Any, Tensor]:
    """``PersistentExperts`` for the call's rows, and its plan."""
    experts, rows, tp = _experts(call, source), call.shape["batch"], call.shape["tp"]
    out = call.outputs["out"]
    buffers = imported(source, EXPERTS, "scratch")(tp, out.device)
    if rows >= PLANNED_FROM:  # the shared experts' down projection runs beside it, on SMs of its own (q = 1)
        spans = f"{imported(source, FRONT, 'SPLIT')},{imported(source, FRONT, 'SPLITS')[tp][0]}"
        beside = imported(source, POLICY, "batch_table")(spans)[rows]
        sms = torch.cuda.get_device_properties(out.device).multi_processor_count
        experts.grids[rows] = min(experts.grid_for(rows), sms - beside)
    experts.prepare(rows, buffers, out, planned=rows >= PLANNED_FROM, early=True)
    experts.buffers = buffers  # its views of them do not hold them
    return experts, buffers["plan"]


def _experts(call: Call, source: Source) -> Any:
    """``PersistentExperts`` as ``SpecializedDecode`` of runtime/decode.py makes it, of all 896 experts."""
    i, device = call.inputs, call.outputs["out"].device
    w13, w2 = (Packed(weight.codes.to(device), weight.scales.to(device)) for weight in (i["w13"], i["w2"]))
    held = expert_weights.laid_out(w13, w2)
    places = expert_weights.places(len(i["w13"].codes)).to(device)
    weights = [expert_weights.spread(tensor, places) for tensor in held]
    return imported(source, EXPERTS, "PersistentExperts")(*weights, beta=i["beta"], linear_beta=i["linear_beta"])


def _scales(experts: Any) -> list[Tensor]:
    return [experts.weights[n].view(torch.uint8).view(-1) for n in (1, 3)]


def _polled(call: Call) -> bool:
    return call.shape["tp"] == 16 and uses_small_batch(16, call.shape["regime"])
