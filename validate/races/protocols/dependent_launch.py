"""Kernels of a decode layer that overlap: each starts once its predecessor says so, and some wait for its end only on leaving.

vLLM 0.33.0, all of specialized_decode/cutedsl. A kernel is launched once all CTAs of the one before have executed
griddepcontrol.launch_dependents (T below), whatever they have stored by then. griddepcontrol.wait (W) waits until that one kernel
has ended and its stores are visible. What lies further back has ended only if each kernel between has itself waited: therefore
"each waits before it leaves", and a kernel that reads without waiting (AttnRes and the o-projection's consumer: the prefix) needs
a chain of them before its launch. The kernels by chain:

- AttnRes (attn_res/kernel.py, ``kernel``): T at entry, reads the prefix, polls the tail's row, W on leaving.
- Projection: gemm/splitk.py, ``weight_warp`` (T once all loads are issued, which needs stages that were filled after the W, as
  there are more tiles than stages), or the skinny GEMM (T at its end).
- KDA (kda/kernel.py): T at entry for one request, which precedes its W in the ``early`` schedules (verify steps).
- O-projection (oproj/consumer.py): ``OprojFused`` at TP16, T before its W; else the producer (W, T) and ``OprojConsumer`` (T at
  entry, W on leaving). It re-arms its mailboxes, which a peer writes again two layers later, as last.
- MoE, small batch: front, experts and (TP8) shared expert (small_batch/*.py) poll, T at entry, W on leaving by one thread; the
  tail (moe/tail.py, ``MoeTail``, front_poll) waits before T, and re-arms the layer before's rows after it.
- MoE, above: front GEMM (W, T), ``RouteSitu`` (moe/front.py; above batch 8 no W at all: it has polled what the front stored after
  its own), experts (W, T; they count their calls as last, and the next layer's read the count), tail (``MoeTail`` waits first;
  ``WaveMoeTail`` has T at entry above batch 8).

One rank, a thread a kernel, and a peer that needs this rank's part of the tail before it goes on. ``tp`` and ``batch`` choose the
chain: (16, 2) and (16, 8) are one request that verifies, (8, 1) and (8, 16) plain tokens. The re-arming comes last in program
order, since other warps than the publishing ones do it. That the polling tail waits before T, and not only before it leaves, is
more than this model needs: the o-projection fences its prefix before x_moe, from which all that the tail has polled follows.
"""

from validate.races.protocol import Fault, Protocol
from validate.races.system import System, Thread, at_least

# What a kernel does: T, W, F (a fence), or a verb and a cell. Mailboxes: put, get, take (get and re-arm), rearm.
ATTN_RES = "T; read prefix; take out; write prefix; write x; W"
SKINNY, SPLIT_K = "W; read x; write projected; T", "W; T; read x; write projected"
KDA, KDA_EARLY = "W; read projected; T; write local", "T; W; read projected; write local"
PRODUCER = "W; T; read local; put mail"
CHAINS: dict[tuple[int, int], dict[str, str]] = {
    (16, 2): {
        "AttnRes": ATTN_RES,
        "projection": SKINNY,
        "KDA": KDA_EARLY,
        "o-projection": "T; read prefix; W; read local; put mail; get mail; write prefix; F; put x_moe; rearm mail",
        "front": "T; get x_moe; put ids; W",
        "experts": "T; get ids; put rows; W",
        "tail": "get rows; put part; W; T; put out; rearm rows; W",
    },
    (8, 1): {
        "AttnRes": ATTN_RES,
        "projection": SKINNY,
        "KDA": KDA,
        "producer": PRODUCER,
        "o-projection": "T; read prefix; get mail; write prefix; F; put x_moe; rearm mail; W",
        "front": "T; get x_moe; write ids; W",
        "experts": "T; W; read ids; put rows",
        "shared": "T; get x_moe; put shared; W",
        "tail": "get rows; get shared; put part; W; T; put out; rearm rows; W",
    },
    (16, 8): {
        "AttnRes": ATTN_RES,
        "projection": SPLIT_K,
        "KDA": KDA_EARLY,
        "o-projection": "T; read prefix; W; read local; put mail; get mail; write prefix; write y; rearm mail",
        "front": "W; T; read y; put logits",
        "routing": "get logits; W; write ids; T",
        "experts": "W; read calls; read ids; T; write expanded; write calls",
        "tail": "W; read expanded; put rows; put part; get rows; put out; T; rearm rows; W",
    },
    (8, 16): {
        "AttnRes": ATTN_RES,
        "projection": SPLIT_K,
        "KDA": KDA,
        "producer": PRODUCER,
        "o-projection": "T; read prefix; get mail; write prefix; write y; rearm mail; W",
        "front": "W; T; read y; put logits",
        "routing": "get logits; write ids; T",
        "grouping": "T; W; read ids; write units",
        "experts": "W; read calls; read units; T; put rows; put part; write calls",
        "tail": "T; get rows; put out; rearm rows; W",
    },
}
PARITIES = {"mail": 2, "rows": 3, "out": 1}  # the others are other protocols': here a mailbox a layer
FAULTS = {  # the kernel, and what it does instead
    "tail-releases-at-entry": ("tail", lambda does: "T; " + does.replace("; T", "")),
    "front-leaves-early": ("front", lambda does: does.removesuffix("; W")),
    "experts-leave-early": ("experts", lambda does: does.removesuffix("; W")),
    "attn-res-leaves-early": ("AttnRes", lambda does: does.removesuffix("; W")),
    "projection-releases-first": ("projection", lambda does: "T; " + does.removesuffix("; T")),
    "projection-does-not-wait": ("projection", lambda does: does.removeprefix("W; ")),
    "kda-does-not-wait": ("KDA", lambda does: does.replace("W; ", "")),
    "wave-tail-leaves-early": ("tail", lambda does: does.removesuffix("; W")),
}


def build(*, tp: int, batch: int, layers: int, fault: str | None = None) -> System:
    """``layers`` with MoE. ``fault``: of small-batch chains at TP16, but for the wave tail's."""
    tp, batch = (8, 16) if fault == "wave-tail-leaves-early" else (tp, batch)
    system, me = System(), ("own", "peer's")
    boxes = {
        (name, parity, writer): system.mailbox(f"{writer} {name}, parity {parity}", end="any")
        for name, parities in PARITIES.items()
        for parity in range(parities)
        for writer in (me if name == "mail" else me[:1])
    }
    kernels = [(layer, name) for layer in range(layers) for name in CHAINS[tp, batch]]
    launches = [system.cell(f"{name} {layer} releases its dependents", 0) for layer, name in kernels]
    ended = [system.cell(f"{name} {layer} has ended", 0) for layer, name in kernels]

    def mailboxes(name: str, layer: int) -> list[str]:
        if name in PARITIES:
            return [box for (one, parity, _), box in boxes.items() if (one, parity) == (name, layer % PARITIES[name])]
        if f"{name} {layer}" not in system.place:
            system.mailbox(f"{name} {layer}", end="any")
        return [f"{name} {layer}"]

    def step(thread: Thread, number: int, verb: str, name: str) -> None:
        layer, kernel = kernels[number]
        if verb == "T":
            thread.store(launches[number], 1)
        elif verb == "W" and number:
            thread.wait(ended[number - 1], at_least(1), "the end of the kernel before")
        elif verb == "F":
            thread.fence()
        elif verb in ("read", "write"):
            if name not in system.place:
                system.cell(name, "none")
            value = (layer, kernel) if name == "prefix" and verb == "write" else (layer, "AttnRes")
            if kernel == "AttnRes" and verb == "read":
                value = (layer - 1, "o-projection")
            if name == "calls" and verb == "read":
                value = (layer - 1, "AttnRes")
            if verb == "write":
                thread.store(name, value)
            elif layer or (kernel != "AttnRes" and name != "calls"):
                thread.load(name, value)
        elif verb == "put":
            thread.store(mailboxes(name, layer)[0], layer)
        elif verb in ("get", "take"):
            of = layer - 1 if kernel == "AttnRes" else layer
            for box in mailboxes(name, of) if of >= 0 else ():
                thread.receive(box, of)
                if verb == "take":
                    thread.arm(box, clears=of)
        elif verb == "rearm":
            of = layer - 1 if name == "rows" else layer
            for box in mailboxes(name, of) if of >= 0 else ():
                thread.arm(box, clears=of)

    for number, (layer, name) in enumerate(kernels):
        thread = system.thread(f"{name} {layer}")
        if number:
            thread.wait(launches[number - 1], at_least(1), "its launch")
        does = CHAINS[tp, batch][name]
        if fault and FAULTS[fault][0] == name:
            does = FAULTS[fault][1](does)
        for one in does.split("; "):
            verb, _, cell = one.partition(" ")
            step(thread, number, verb, cell)
        thread.fence("it has ended")
        thread.store(ended[number], 1)
    peer = system.thread("peer")
    for layer in range(layers):
        peer.store(mailboxes("mail", layer)[1], layer)
        peer.receive(mailboxes("part", layer)[0], layer)
    return system


PROTOCOL = Protocol(
    "dependent_launch",
    build,
    (
        Fault(
            "tail-releases-at-entry", "the polling tail releases AttnRes at entry", "WaveMoeTail's early release, here as well"
        ),
        Fault("front-leaves-early", "the front ends without having waited", "TensorRT-LLM 14537; its one-thread exit wait lost"),
        Fault("experts-leave-early", "the experts end without having waited", "their one-thread exit wait lost"),
        Fault(
            "attn-res-leaves-early", "AttnRes ends without having waited", "as above; the tail's re-arming is nobody's to await"
        ),
        Fault("projection-releases-first", "the projection releases at entry", "a ring with a stage for every tile of K"),
        Fault("projection-does-not-wait", "it reads x without waiting", "an entry wait lost"),
        Fault("kda-does-not-wait", "KDA reads its row without waiting", "a load moved ahead of the wait (early schedules)"),
        Fault(
            "wave-tail-leaves-early",
            "WaveMoeTail ends without having waited",
            "its exit wait lost: nobody waits for the experts before, which count their calls as last",
        ),
    ),
    (
        {"tp": 16, "batch": 2, "layers": 4},
        {"tp": 8, "batch": 1, "layers": 4},
        {"tp": 16, "batch": 8, "layers": 4},
        {"tp": 8, "batch": 16, "layers": 4},
        {"tp": 16, "batch": 2, "layers": 12},
    ),
    {"tp": 8, "batch": 16, "layers": 8},
)
