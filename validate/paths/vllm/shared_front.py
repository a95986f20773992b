"""The MoE front above the small batches, by ``SharedFront`` of vLLM's moe/front.py (0.33.0).

On each rank a GEMM multicasts the rank's logits and its columns of the latent into all ranks' mailbox, where one kernel of
every rank, ``RouteSitu``, polls for those of all ranks, routes, and copies the latent. The GEMM is ``WsGemm``; of many rows
it is part of the shared experts' kernel (``SharedUmma``), which computes them here, too, from zeros.
"""

from types import SimpleNamespace

from torch import Tensor

from validate.model.call import Call
from validate.model.dimensions import K3
from validate.paths.emulated.mailbox import SENTINEL
from validate.paths.vllm.adapter import Group
from validate.paths.vllm.entries import FRONT, PREPARED_MOE, PREPARED_OPROJ, PROVIDERS, imported
from validate.paths.vllm.front import UNWRITTEN, Layer, fill, padded_rows
from validate.paths.vllm.mailboxes import check_armed
from validate.paths.vllm.route_situ import CAPACITY, ROW
from validate.paths.vllm.source import Source


class SharedFront:
    """``front.Front`` as ``SpecializedDecode.build_providers`` of runtime/decode.py makes it, for one row count."""

    def __init__(self, call: Call, source: Source, group: Group, layer: Layer) -> None:
        rows, tp, device = call.shape["regime"], group.size, layer.gate.device
        width = K3.shared_intermediate // tp
        moe = SimpleNamespace(
            gate=SimpleNamespace(weight=layer.gate, e_score_correction_bias=layer.bias),
            routed_expert_down_proj=SimpleNamespace(weight=layer.down),
            shared_experts=SimpleNamespace(
                gate_up_proj=SimpleNamespace(weight=layer.gate.new_zeros(2 * width, K3.hidden)),
                down_proj=SimpleNamespace(weight=layer.gate.new_zeros(K3.hidden, width)),
            ),
            routed_scaling_factor=layer.scaling,
            moe_renormalize=True,
        )
        self._state = imported(source, PREPARED_MOE, "MoEScratch")(tp, device, (rows,))
        owner = group.process_group, device, tp, group.rank
        self._box = imported(source, PREPARED_OPROJ, "OprojMailbox")(*owner, (1, CAPACITY, ROW))
        self._packed = imported(source, PROVIDERS, "pack_front")(moe, group.rank, tp)
        places = self._packed, self._box, self._state.front, (rows,)
        self._front = imported(source, FRONT, "SharedFront")(
            moe, *places, K3.situ_beta, K3.situ_linear_beta, plan=self._state.plan, counters=self._state.shared
        )
        self._x, self._given = padded_rows(call), call.inputs["x"]
        _, _, ids, weights, _, _, latent = self._state.front  # its logits go through the mailbox
        self.ids, self.weights, self.latent = ids[:rows], weights[:rows], latent[:rows]
        self.mailboxes: tuple[Tensor, ...] = (self._box.buffer[:, :rows],)

    def launch(self) -> None:
        """Both kernels."""
        self._x[: len(self._given)].copy_(self._given)
        self._front.route(self._x)

    def arm(self) -> None:
        """The mailbox armed, and nothing written yet."""
        fill([(self._box.buffer, SENTINEL)])
        fill((tensor, UNWRITTEN) for tensor in (self.ids, self.weights, self.latent))

    def collect(self) -> None:
        """``RouteSitu`` arms what it has read."""
        check_armed("the front's mailbox", self._box.buffer)
