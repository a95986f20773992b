"""The main and the side stream of the MoE layers, and the stream of the weight prefetches, as CUDA's events order them.

vLLM 0.33.0, specialized_decode/cutedsl/moe/prepared.py, ``PreparedMoE.run`` and ``finish``; runtime/prefetch.py,
``PrefetchController.fork`` and ``join``. One stream and one set of events (begin, gate_done, shared_done) serve all layers: a
wait is for the record that the host issued last, so that what counts is the order of the host's calls. The buffers are one set,
too: x, which the o-projection of every layer writes anew, h and the shared expert's rows, which the tail reads (front mode; from
TP8 B5 and TP16 B9 on it polls mailboxes instead, and the wait only keeps x and h from being overwritten).

A thread a stream, a store or a load a kernel, and the kernel's end a fence: of the main stream, whose kernels overlap, that is
dependent_launch's to show. ``split`` 1: the down half runs beside the experts, which wait for gate_done (batches above 8; that
wait only shares out SMs: harmless if lost). A prefetch reads weights only, so that its fork may be lost; that its stream is
joined at the step's end matters to whoever frees the weights after the step, and to the capture, which fails otherwise.

Not here: batches whose front rows join the gate and up kernel (``SharedFront.merged``: TP8 41 to 64, TP16 33 to 64). There the
main stream itself writes h, begin is recorded after the routing kernel, and this one (``RouteSitu``, above batch 8) ends without
griddepcontrol.wait: no wait says that the kernel before it, which writes h, has ended. The fault ``merged`` is what 0.33.0 does.
"""

from validate.races.protocol import Fault, Protocol
from validate.races.system import System, Thread


class Event:
    """``torch.cuda.Event``: recorded anew, it is another one to all that wait later."""

    def __init__(self, system: System, name: str) -> None:
        self.system, self.name, self.records = system, name, list[str]()

    def record(self, stream: Thread) -> None:
        """All of the stream's kernels so far."""
        stream.fence(f"{self.name} is recorded")
        self.records.append(self.system.cell(f"{self.name}, record {len(self.records)}", 0))
        stream.store(self.records[-1], 1)

    def wait(self, stream: Thread) -> None:
        """Nothing if it was never recorded, as CUDA has it."""
        if self.records:
            stream.wait(self.records[-1], lambda value: value == 1, self.name)


def build(*, layers: int, split: int, fault: str | None = None) -> System:
    """``layers`` with MoE."""
    system = System()
    main, side, prefetch = (system.thread(f"{name} stream") for name in ("main", "side", "prefetch"))
    begin, gate_done, shared_done, fork, joined, over = (
        Event(system, name) for name in ("begin", "gate_done", "shared_done", "fork", "joined", "the step's end")
    )
    x, h, rows = (system.cell(name, "none") for name in ("x", "h", "shared rows"))
    weights = system.cell("weights", "weights")

    def shared_expert(layer: int) -> None:
        if fault != "begin-not-awaited":
            begin.wait(side)
        if fault != "merged":
            side.load(x, layer)
            side.store(h, layer)
            side.fence("gate and up have ended")
            if split:
                gate_done.record(side)
        side.load(h, layer)
        side.store(rows, layer)
        side.fence("down has ended")
        shared_done.record(main if fault == "recorded-on-main" else side)

    for layer in range(layers):
        main.store(x, layer)
        main.fence("the o-projection has ended")
        if fault == "merged":
            front, routed = (
                system.thread(f"merged kernel of layer {layer}"),
                system.mailbox(f"logits of layer {layer}", end="any"),
            )
            begin.record(main)
            begin.wait(front)
            front.load(x, layer)
            front.store(h, layer)
            front.store(routed, layer)
            main.receive(routed, layer)
        begin.record(main)
        if fault != "awaited-before-recorded":
            shared_expert(layer)
        main.load(x, layer)
        if split:
            gate_done.wait(main)
        fork.record(main)
        fork.wait(prefetch)
        prefetch.load(weights, "weights")
        if fault != "shared-not-awaited":
            (gate_done if fault == "gate-for-shared" else shared_done).wait(main)
        if fault == "awaited-before-recorded":
            shared_expert(layer)
        main.load(rows, layer)
    if fault != "not-joined":
        joined.record(prefetch)
        joined.wait(main)
    over.record(main)
    host = system.thread("host")
    over.wait(host)
    host.store(weights, "freed")
    return system


PROTOCOL = Protocol(
    "side_stream",
    build,
    (
        Fault("begin-not-awaited", "the side stream does not wait for begin", "x of the layer before, or half of both"),
        Fault("shared-not-awaited", "the main stream does not wait for shared_done", "rows of the layer before in the tail"),
        Fault("recorded-on-main", "shared_done is recorded on the main stream", "record() under the wrong current stream"),
        Fault("awaited-before-recorded", "the wait for shared_done is issued first", "it is for the record of the layer before"),
        Fault("gate-for-shared", "the main stream waits for gate_done before the tail, too", "one of two alike events"),
        Fault("not-joined", "the prefetch stream is not joined", "cudaErrorStreamCaptureUnjoined, or weights freed under it"),
        Fault(
            "merged", "h comes from the main stream, and only the routing kernel is waited for", "vLLM 0.33.0 itself: in doubt"
        ),
    ),
    (
        {"layers": 2, "split": 1},
        {"layers": 3, "split": 0},
        {"layers": 40, "split": 1},
    ),
    {"layers": 93, "split": 1},
)
