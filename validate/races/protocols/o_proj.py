"""O-projection all-reduce in one shot: each rank multicasts its partial sums into the mailboxes of all, and sums what has come.

vLLM 0.33.0, specialized_decode/cutedsl/oproj/prepared.py (``OprojMailbox``, parity ``layer_idx % 2``), producer.py, consumer.py
(``poll_sum``, re-armed at once). The data is the flag, 16 bytes at a time; no access orders another. What makes a mailbox safe to
write again is that its reader's kernel has ended, and thus its re-arming is visible, before the reader takes part in the MoE
tail's all-reduce, without which no rank reaches the layer after. 93 layers are odd: layer 92 and the next step's layer 0 follow
each other with one parity.

Two threads a rank: the producer, and its other kernels in stream order. A multicast comes back to the rank that sends it like any
other's, so that its own mailbox is polled, too. The tail is abstract, with cells of its own for every layer.
"""

from validate.races.protocol import Fault, Protocol
from validate.races.protocols.kernels import Kernels, all_reduce
from validate.races.system import ARMED, System


def build(*, ranks: int, layers: int, steps: int, fragments: int, fault: str | None = None) -> System:
    """``layers`` must be odd, as 93 is; ``fragments``: cells a payload."""
    system = System()
    every, kernels = range(ranks), Kernels(system)
    mail = {
        (reader, parity, writer, f): system.mailbox(f"mail of rank {reader}, parity {parity}, from {writer}, fragment {f}")
        for reader in every
        for parity in range(2)
        for writer in every
        for f in range(fragments)
    }
    for rank in every:
        producer, thread = system.thread(f"rank {rank}'s producer"), system.thread(f"rank {rank}")
        for number in range(layers * steps):
            parity, what = number % layers % 2, f"layer {number % layers} of step {number // layers}"
            alone = fault == "falls-back-alone" and rank == 1 and number == 1
            if number:
                kernels.released(producer, f"producer {number} of rank {rank}")
            for reader in every if not alone else ():
                for f in range(fragments):
                    minus_zero = fault == "minus-zero" and number == 1 and f == fragments - 1
                    producer.store(mail[reader, parity, rank, f], ARMED if minus_zero else f"{what} from {rank}")
            for writer in every if not alone else ():
                if fault == "one-rank-short" and writer == ranks - 1:
                    continue
                for f in range(fragments):
                    box, payload = mail[rank, parity, writer, f], f"{what} from {writer}"
                    if (fault == "first-fragment-for-all" and f) or (fault == "own-not-polled" and writer == rank):
                        thread.load(box, payload)
                    else:
                        thread.receive(box, payload, group=(number, writer))
                    if fault == "re-armed-early" and f == 0:
                        for late in range(fragments):
                            thread.arm(mail[rank, parity, writer, late], clears=payload)
                    elif fault != "re-armed-early" and not (fault == "not-re-armed" and number == 0):
                        thread.arm(box, clears=payload)
            if fault != "no-wait-for-kernel":
                thread.fence("its kernels have ended")
            all_reduce(thread, f"tail {number}", rank, every)
            kernels.releases(thread, f"producer {number + 1} of rank {rank}")
    return system


PROTOCOL = Protocol(
    "o_proj",
    build,
    (
        Fault("not-re-armed", "the first layer's mailboxes are not re-armed", "a consumer whose re-arming is lost: stale sums"),
        Fault(
            "re-armed-early",
            "all of a row is re-armed once its first 16 bytes are read",
            "ROCm/aiter 4977",
        ),
        Fault("first-fragment-for-all", "only the first 16 bytes are polled", "a poll of one word for a whole row"),
        Fault("own-not-polled", "a rank reads its own mailbox once", "own sums taken for granted: a multicast comes back late"),
        Fault("minus-zero", "a payload's (+0, -0) is not folded", "flashinfer 3304, vLLM 35772: a sum equal to the sentinel"),
        Fault("one-rank-short", "the last rank's mailbox is not read", "a loop over ranks that ends one early"),
        Fault("no-wait-for-kernel", "the tail does not wait until the kernel has ended", "PDL: griddepcontrol.wait left out"),
        Fault("falls-back-alone", "rank 1 takes the default path in one layer", "a plan that is not the same on all ranks"),
    ),
    (
        {"ranks": 2, "layers": 3, "steps": 1, "fragments": 2},
        {"ranks": 8, "layers": 3, "steps": 1, "fragments": 2},
        {"ranks": 2, "layers": 93, "steps": 2, "fragments": 2},
    ),
    {"ranks": 4, "layers": 5, "steps": 3, "fragments": 3},
)
