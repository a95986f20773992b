"""Steps that run specialized or default, as every rank decides for itself, and what a specialized step leaves to the next one.

vLLM 0.33.0, specialized_decode/runtime/decode.py, ``SpecializedDecode.plan`` ("every predicate is the same on all TP ranks"), and
cutedsl/moe/tail_runtime.py, ``MoeTailWeights``: three parities rotate over the MoE layers, each launch re-arms the rows of the
launch before, and the first layer of a step those of the last layer that ran specialized, however many steps ago and with
whatever batch: the largest one's (``wrap``; its own batch's would do, since only a step that uses more rows needs them armed, and
its first layer comes before any that uses them). Parity is the layer's, not a count of launches, so that default steps change
nothing. With 92 MoE layers, 2 modulo 3, the first launch of a step re-arms the very parity that the second one writes;
``layers`` must be such, too. What orders that is the o-projection between: no rank reaches the second tail without every rank's
part of it, and a rank takes part once the kernels before, and so its re-arming, have ended (dependent_launch).

One thread a rank. The o-projection is abstract, with cells of its own for every layer; a default step's all-reduces are a barrier
of all ranks. The steps are of 2, 0 (a default step), 1 and 2 rows, again and again.
"""

from validate.races.protocol import Fault, Protocol
from validate.races.protocols.kernels import all_reduce
from validate.races.system import System, at_least

ROWS = (2, 0, 1, 2)


def build(*, ranks: int, layers: int, steps: int, fault: str | None = None) -> System:
    """``layers`` with MoE."""
    system, every = System(), range(ranks)
    box = {
        (reader, parity, writer, row): system.mailbox(f"row {row} of rank {writer} at {reader}, parity {parity}", end="any")
        for reader in every
        for parity in range(3)
        for writer in every
        if writer != reader
        for row in range(max(ROWS))
    }
    met = [system.cell(f"ranks in the default step {step}", 0) for step in range(steps)]
    for rank in every:
        thread, others, launches = system.thread(f"rank {rank}"), [other for other in every if other != rank], 0
        for step in range(steps):
            rows, alone = ROWS[step % len(ROWS)], rank == 1 and step == 2
            if fault == "falls-back-alone" and alone:
                rows = 0
            if fault == "pads-alone" and alone:
                rows = max(ROWS)
            if not rows:
                thread.add(met[step])
                thread.wait(met[step], at_least(ranks), "all ranks' default step")
                launches += fault == "parity-of-launches" and rank == 1
                continue
            for layer in range(layers):
                parity = (launches if fault == "parity-of-launches" else layer) % 3
                launches += 1
                what = f"step {step}, layer {layer}"
                all_reduce(thread, f"o-projection {layer} of step {step}", rank, every)
                for other in others:
                    for row in range(rows):
                        thread.store(box[other, parity, rank, row], what)
                for other in others:
                    for row in range(rows):
                        thread.receive(box[rank, parity, other, row], what)
                again = rows if layer else max(ROWS)
                if fault == "forgets-over-a-default-step" and not layer and step and not ROWS[(step - 1) % len(ROWS)]:
                    again = 0
                before = (parity - 1 if fault == "parity-of-launches" else (layer - 1) % layers) % 3
                for other in others:
                    for row in range(again):
                        thread.arm(box[rank, before, other, row])
                if fault != "re-arming-not-awaited":
                    thread.fence("its kernels have ended")
    return system


PROTOCOL = Protocol(
    "plan",
    build,
    (
        Fault(
            "falls-back-alone", "one rank takes the default path in a step", "a predicate of plan() that ranks answer differently"
        ),
        Fault("pads-alone", "one rank pads to a larger batch", "capture sizes, or q, that differ between ranks"),
        Fault("forgets-over-a-default-step", "nothing is re-armed after a default step", "state kept of the last step only"),
        Fault(
            "parity-of-launches",
            "parity counts launches, the default step's on one rank, too",
            "an epoch that a skipped step moves",
        ),
        Fault(
            "re-arming-not-awaited",
            "the o-projection does not wait for the tail's end",
            "an exit wait lost: 0 re-arms what 1 gets",
        ),
    ),
    (
        {"ranks": 2, "layers": 2, "steps": 4},
        {"ranks": 2, "layers": 5, "steps": 8},
        {"ranks": 3, "layers": 5, "steps": 4},
    ),
    {"ranks": 4, "layers": 5, "steps": 8},
)
