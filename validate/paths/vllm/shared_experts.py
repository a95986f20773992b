"""The shared experts by the specialized path's own kernels: on SM100 all sizes but those of TP 16's one and two rows.

Up to 8 rows a split-K chain; above, ``SharedUmma`` and ``SharedDown``, which store to the ranks' reduce-scatter mailboxes:
here all of them are this GPU's memory. TP 8's one row has a kernel for the activation and the down projection. On SM90 the
chain's activation runs, between emulated projections.
"""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.paths.emulated import shared_experts as emulated
from validate.paths.emulated.front import merged, uses_small_batch
from validate.paths.vllm import binding, route_situ
from validate.paths.vllm.adapter import Around, Composed, Needs, Prepared, Run, Whole, other_rows
from validate.paths.vllm.entries import FRONT, PROVIDERS, SHARED, imported
from validate.paths.vllm.route_situ import CAPACITY, ROW
from validate.paths.vllm.source import Source

PARITIES = 3  # of the reduce-scatter mailboxes (moe/tail_runtime.py MoeTailBox)
PARITY, RANK = 2, 1  # of this call: any would do
SPLIT_K_ROWS = 8  # to which the result stays where it is computed
BEYOND = 1 << 20
HIDDEN = 4  # the hidden rows' place in ``_storage``


class SpecializedSharedExperts(Whole):
    """``SharedFront.shared_expert`` of moe/front.py as ``SpecializedDecode`` binds it, beyond the small batches. SM100.

    The rows are those of the regime: what a CUDA graph was prepared for, padded rows after the live ones. How many SMs
    ``SharedDown`` takes differs between plain and verify steps; here it is the plain steps' number.
    """

    needs = Needs(capability=(10, 0))
    step = ("x",)

    def missing(self, call: Call, source: Source) -> str | None:
        """Small batches."""
        small = "one kernel routes and does this, too, and multicasts: it needs all ranks"
        reason = emulated.SpecializedSharedExperts.missing(call)
        return reason or (small if uses_small_batch(call.shape["tp"], call.shape["regime"]) else None)

    def note(self, call: Call) -> str | None:
        """Where the gate and up rows share a kernel with the router's, whose results leave by multicast."""
        same = merged(call.shape["tp"], call.shape["regime"])
        return "its kernel computes the router's rows, too, which are not published here" if same else None

    def prepare(self, call: Call, source: Source) -> Prepared:
        """``reference.shared_experts.reference`` says what the tensors are."""
        return Prepared(_Front(call, source))


class _Front:
    """A launch of ``SharedFront.shared_expert``. It holds what TMA maps and peers' addresses point to: they do not."""

    def __init__(self, call: Call, source: Source) -> None:
        i, tp = call.inputs, call.shape["tp"]
        self.x, self.partial, rows, device = i["x"], call.outputs["partial"], len(i["x"]), i["x"].device
        self.host, self.cutlass = binding.host(source), binding.cutlass()
        self.storage = _storage(rows, K3.shared_intermediate // tp, device)
        self.received = torch.empty(tp, PARITIES, tp, CAPACITY, K3.hidden // tp, dtype=torch.bfloat16, device=device)
        self.peers = torch.tensor([box.data_ptr() for box in self.received], dtype=torch.int64, device=device)
        self.counters = imported(source, SHARED, "scratch")(device)
        self.box = SimpleNamespace(buffer=torch.zeros(1, CAPACITY, ROW, dtype=torch.bfloat16, device=device), mc=0, rank=RANK)
        self.moe = _moe(i, device)
        self.packed = imported(source, PROVIDERS, "pack_front")(self.moe, RANK, tp)
        bounds = i["beta"], i["linear_beta"]
        given = (self.moe, self.packed, self.box, self.storage, [rows], *bounds)
        self.front = imported(source, FRONT, "SharedFront")(*given, counters=self.counters)
        self.gate_up = None
        if self.front.merged_batch(rows):
            compile_ = imported(source, SHARED, "compile_shared")
            self.gate_up = compile_(tp, rows, device.index, True, unpublished(len(self.packed)))

    def __call__(self) -> None:
        for unwritten in (*self.storage, self.received):
            unwritten.fill_(float("nan") if unwritten.is_floating_point() else -1)
        rows, live = len(self.x), len(self.partial)
        if self.gate_up is not None:
            self._launch_gate_up(self.gate_up)
        # What the small sizes' rows are pushed by is the tail's.
        ring = self.cutlass.Int32(PARITY), self.cutlass.Int32(RANK)
        tail = SimpleNamespace(peers=self.host.to_cute(self.peers), ring=ring, push=lambda shared: None)
        shared, beside = self.front.shared_expert(self.x, tail)
        if beside is not None:
            beside()
        if rows > SPLIT_K_ROWS:  # [owner, row, column] to [row, owner and column]
            shared = self.received[:, PARITY, RANK, :live].transpose(0, 1).flatten(1)
        self.partial.copy_(shared[:live])

    def _launch_gate_up(self, code: Any) -> None:
        """As ``SharedFront.route`` does."""
        to_cute, int32 = self.host.to_cute, self.cutlass.Int32
        maps, unused = self.front.merged_args
        operands = (to_cute(self.x), maps, to_cute(self.storage[HIDDEN]), to_cute(self.counters), unused)
        ring = int32(0), int32(0), int32(CAPACITY)
        code(*operands, *ring, *self.front.scalars[1:], *self.front.box[1:], self.host.stream(self.x.device))


def unpublished(rows: int) -> tuple[int, int, int, int]:
    """``compile_shared``'s ``front`` for so many rows of the router and the latent, none of whose results is stored.

    They would leave by multicast. ``SharedUmma.publish`` stores rows below the number of logits, and rows from the latent's
    first on: here there is no logit, and the latent begins beyond all rows. Nothing else of the kernel depends on these.
    """
    return rows, BEYOND, 0, ROW


def _storage(rows: int, width: int, device: torch.device) -> tuple[Tensor, ...]:
    """Logits, gate and up, ids, weights, hidden rows, partial, latent: ``MoEScratch.front`` of moe/prepared.py."""
    shapes = (K3.experts, 2 * width, K3.top_k, K3.top_k, width, K3.hidden, K3.latent)
    dtypes = (torch.float32, torch.float32, torch.int32, *[torch.bfloat16] * 4)
    return tuple(torch.empty(rows, n, dtype=dtype, device=device) for n, dtype in zip(shapes, dtypes, strict=True))


def _moe(i: Mapping[str, Any], device: torch.device) -> SimpleNamespace:
    """The layer's module with the call's shared experts. The rest, which they do not use, is zeros."""

    def zeros(rows: int) -> SimpleNamespace:
        return SimpleNamespace(weight=torch.zeros(1, 1, dtype=torch.bfloat16, device=device).expand(rows, K3.hidden))

    gate = zeros(K3.experts)
    gate.e_score_correction_bias = torch.zeros(K3.experts, device=device)
    gate_up, down = (SimpleNamespace(weight=i[name]) for name in ("gate_up", "down"))
    return SimpleNamespace(
        gate=gate,
        routed_expert_down_proj=zeros(K3.latent),
        shared_experts=SimpleNamespace(gate_up_proj=gate_up, down_proj=down),
        routed_scaling_factor=K3.routed_scaling,
        moe_renormalize=True,
    )


class SpecializedSharedSitu(Composed):
    """``RouteSitu`` in its third role: from the small batches to 8 rows. SM90."""

    def missing(self, call: Call, source: Source) -> str | None:
        """Small batches and more than 8 rows, whose kernels hold the activation and both products."""
        tp, rows = call.shape["tp"], call.shape["batch"]
        reason = emulated.SpecializedSharedExperts.missing(call) or other_rows(call)
        if reason is None and (rows > SPLIT_K_ROWS or uses_small_batch(tp, rows)):
            reason = "its kernels hold the products, too, and need SM100"
        return reason

    def note(self, call: Call) -> str:
        """Its GEMMs need SM100."""
        return "activation by vLLM; projections emulated"

    def compose(self, call: Call, run: Run) -> None:
        """``reference.shared_experts.reference`` says what the tensors are."""
        _Around(run)(call)


class _Around(Around, emulated.SpecializedSharedExperts):
    def activate(self, gate: Tensor, up: Tensor, beta: float, linear_beta: float) -> Tensor:
        hidden = torch.full(gate.shape, float("nan"), dtype=torch.bfloat16)
        inputs = {"gate_up": torch.cat([gate, up], 1), "beta": beta, "linear_beta": linear_beta}
        self._run(_Activation(), Call("shared_experts", {"batch": len(gate)}, inputs, {}, {}, {"hidden": hidden}))
        return hidden.float()


class _Activation:
    """``RouteSitu`` as ``SharedFront.shared_expert`` of moe/front.py calls it, its other roles' tensors unused."""

    step = ("gate_up",)

    def prepare(self, call: Call, source: Source) -> Prepared:
        i, hidden = call.inputs, call.outputs["hidden"]
        rows, width = hidden.shape
        scalars = (1.0, i["beta"], i["linear_beta"])
        used = {"gate_up": i["gate_up"], "hidden": hidden}
        return Prepared(route_situ.bound(source, (False, False, True), rows, width, scalars, used))
