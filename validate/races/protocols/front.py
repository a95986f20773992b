"""The MoE front's mailbox: each rank multicasts its router logits and its columns of the latent rows; routing polls them.

vLLM 0.33.0, specialized_decode/cutedsl/moe/front.py (``SharedFront``, ``RouteSitu``), gemm/ws_gemm.py (``WsGemm.epilogue``)
or, merged with the shared expert's gate and up, shared.py (``SharedUmma.publish``). The box has a single parity, [1, 64, 3584
+ 2 * 896]. The route role polls a token's 896 logits, the copy role its latent row, other CTAs of one kernel; each thread
re-arms what it has polled at once, and stores ids, weights and latent for the experts.

Routing is released by the front's launch_dependents, before the front has published anything; its only barrier is the poll,
and above 8 tokens no thread of it waits for the front's end. The experts wait for routing (experts.py,
``ExpertsKernel.kernel``; above 8 tokens through ``ExpertsGroupKernel``) before they publish anything. So a rank's box is armed
before it takes part in the MoE tail's all-reduce, without which no rank gets to the next layer's front: one parity is enough.
Routing without an exit wait is sound because it reads what the own front publishes, after that front's own wait.

Three threads a rank: the stream's other kernels (front, experts, tail; the latter's all-reduce has cells of its own for every
layer), and a CTA of each role.
"""

from validate.races.protocol import Fault, Protocol
from validate.races.protocols.kernels import Kernels, all_reduce
from validate.races.system import ARMED, System

ROLES = ("route", "copy")


def build(*, ranks: int, layers: int, fragments: int, fault: str | None = None) -> System:
    """``fragments``: cells that a rank sends to each role. Steps follow each other as layers do."""
    system, every = System(), range(ranks)
    kernels = Kernels(system)
    box = {
        (reader, role, source, f): system.mailbox(
            f"box of rank {reader}: {role} from {source}, fragment {f}",
            end="any" if fault == "re-armed-by-the-next-launch" else "armed",
        )
        for reader in every
        for role in ROLES
        for source in every
        for f in range(fragments)
    }
    for rank in every:
        thread = system.thread(f"rank {rank}")
        for layer in range(layers):
            kernels.releases(thread, f"routing {layer} of rank {rank}")
            for reader in every:
                for role in ROLES:
                    for f in range(fragments):
                        minus_zero = fault == "minus-zero" and role == "route" and layer == 1
                        thread.store(box[reader, role, rank, f], ARMED if minus_zero else f"{role} {layer} from {rank}")
            thread.fence("its front has ended")
            if fault != "experts-do-not-wait":
                kernels.after(thread, *(f"routing {layer} of rank {rank}, {role}" for role in ROLES))
            all_reduce(thread, f"tail {layer}", rank, every)
        for role in ROLES:
            thread = system.thread(f"rank {rank}'s {role}")
            for layer in range(layers):
                kernels.released(thread, f"routing {layer} of rank {rank}")
                polled = [
                    (box[rank, role, source, f], f"{role} {layer} from {source}", f) for source in every for f in range(fragments)
                ]
                if fault == "re-armed-by-the-next-launch" and layer:
                    for cell, _, _ in polled:
                        thread.arm(cell)
                for cell, payload, f in polled:
                    if fault == "one-poll-for-two-fragments" and f:
                        thread.load(cell, payload)
                    else:
                        thread.receive(cell, payload, group=(layer, cell))
                for cell, payload, _ in polled:
                    if fault not in (f"{role}-not-re-armed", "re-armed-by-the-next-launch"):
                        thread.arm(cell, clears=payload)
                kernels.ends(thread, f"routing {layer} of rank {rank}, {role}")
    return system


PROTOCOL = Protocol(
    "front",
    build,
    (
        Fault("route-not-re-armed", "the route role leaves the logits", "a lost re-arming: the layer before's experts"),
        Fault("copy-not-re-armed", "the copy role leaves the latent row", "a lost re-arming: the layer before's latent row"),
        Fault("one-poll-for-two-fragments", "only the first of two fragments is polled", "RouteSitu.copy with a poll count of 1"),
        Fault("minus-zero", "a router logit of -0", "WsGemm.epilogue without positive_zero32; flashinfer 3304, vLLM 35772"),
        Fault("experts-do-not-wait", "the experts start at routing's launch_dependents", "their griddepcontrol.wait lost"),
        Fault(
            "re-armed-by-the-next-launch",
            "each launch re-arms what the one before it has read",
            "the tail's recycling, for which a single parity is not enough",
        ),
    ),
    (
        {"ranks": 2, "layers": 2, "fragments": 2},
        {"ranks": 2, "layers": 4, "fragments": 2},
        {"ranks": 4, "layers": 4, "fragments": 2},
        {"ranks": 2, "layers": 93, "fragments": 2},
    ),
    {"ranks": 4, "layers": 6, "fragments": 2},
)
