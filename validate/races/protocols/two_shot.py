"""All-reduce in two shots: each rank sends every column block to its owner, who sums it and multicasts the sum to all.

vLLM 0.33.0, specialized_decode/cutedsl/common/twoshot.py (``TwoShot``, ``push``, ``reduce``), as TP16 runs it at 33 to 64
tokens, for the o-projection and the MoE latent:

- O-projection (oproj/producer.py, consumer.py), parity ``layer_idx % 2``. The consumer's threads that hold the owned columns
  reduce, re-arm the receive slots and multicast; every thread polls the sums of its columns and re-arms them at once.
- MoE tail (moe/tail.py: ``WaveMoeTail.poll_inputs``, ``read_reduced``, ``rearm_rows``), parity by MoE ordinal modulo 3. Each
  of seven row clusters polls all sums, so that none can re-arm them: the next MoE layer's launch re-arms slots and sums of the
  one before it, ``(ordinal - 1) % count % 3``, after its own output.

The data is the flag in both shots. A kernel's end orders re-arming before whatever waits for it: the MoE front and the experts
for the consumer, AttnRes at its exit for the tail (griddepcontrol.wait). No rank gets through an all-reduce without what the
others send after such a wait. 93 layers are odd, and 92 MoE layers 2 modulo 3: at the step's wrap the o-projection meets one
parity twice in a row, the tail one parity with a single layer between. So two parities would do for the tail, and the third is
a margin.

Five threads a rank: the kernels between, in stream order, which push, and AttnRes, which polls the tail's output rows; two
CTAs of the consumer, of which one holds the owned columns; two of the tail, each of a cluster of its own. One fragment a
block: each thread polls its own. Left out, as they would only order more: the tail's reduce-scatter and layer 0's dense
all-reduce.
"""

from typing import Literal

from validate.races.protocol import Fault, Protocol
from validate.races.protocols.kernels import Kernels
from validate.races.system import ARMED, System, Thread

Boxes = dict[tuple[int, int, int], str]  # by rank, parity and column block; of slots by source instead
CTAS = (0, 1)


def build(*, ranks: int, layers: int, steps: int, fault: str | None = None) -> System:
    """``layers``: odd and 3 modulo 6, as 93 is. The first has no MoE."""
    system, every = System(), range(ranks)
    kernels, count = Kernels(system), 3 if fault == "wrap-forgotten" else layers - 1

    def boxes(what: str, parities: int, end: Literal["armed", "any"]) -> Boxes:
        keys = [(rank, parity, block) for rank in every for parity in range(parities) for block in every]
        return {key: system.mailbox("{} of rank {}, parity {}, {}".format(what, *key), end) for key in keys}

    slots, sums = boxes("slot", 2, "armed"), boxes("sum", 2, "armed")
    tail_slots, tail_sums = boxes("tail slot", 3, "any"), boxes("tail sum", 3, "any")
    rows = [(source, cta) for source in every for cta in CTAS]
    out = {
        (rank, *row): system.mailbox("output of rank {} from {}, CTA {}".format(rank, *row), "any")
        for rank in every
        for row in rows
    }
    parities = [number % layers % 2 for number in range(layers * steps)]
    layered = [(number, number % layers - 1) for number in range(layers * steps)]  # with the MoE ordinal, -1 without

    def between(thread: Thread, rank: int) -> None:
        for number, ordinal in layered:
            if number and ordinal:
                for source, cta in rows:
                    thread.receive(out[rank, source, cta], f"output {number - 1}")
                    thread.arm(out[rank, source, cta], clears=f"output {number - 1}")
            if number and ordinal and fault != "attn-res-does-not-wait":
                kernels.after(thread, *(f"tail {number - 1} of rank {rank}, CTA {cta}" for cta in CTAS))
            thread.fence("AttnRes has ended")
            kernels.releases(thread, f"consumer {number} of rank {rank}")
            for owner in every:
                minus_zero = fault == "minus-zero-sent" and number == 1
                thread.store(slots[owner, parities[number], rank], ARMED if minus_zero else f"partial {number} from {rank}")
            kernels.ends(thread, f"producer {number} of rank {rank}")
            if fault != "front-does-not-wait":
                kernels.after(thread, *(f"consumer {number} of rank {rank}, CTA {cta}" for cta in CTAS))
            if ordinal >= 0:
                kernels.releases(thread, f"tail {number} of rank {rank}")
                for owner in every:
                    thread.store(tail_slots[owner, ordinal % 3, rank], f"latent {number} from {rank}")
                kernels.ends(thread, f"experts {number} of rank {rank}")

    def consumer(thread: Thread, rank: int, cta: int) -> None:
        for number, _ in layered:
            parity = parities[number]
            kernels.released(thread, f"consumer {number} of rank {rank}")
            for source in every if cta == 0 else ():
                thread.receive(slots[rank, parity, source], f"partial {number} from {source}")
                if fault == "all-slots-re-armed-after-one" and source == 0:
                    for other in every:
                        thread.arm(slots[rank, parity, other], clears=f"partial {number} from {other}")
            for reader in every if cta == 0 else ():
                minus_zero = fault == "minus-zero-summed" and number == 1
                thread.store(sums[reader, parity, rank], ARMED if minus_zero else f"sum {number}")
            for source in every if cta == 0 else ():
                if fault not in ("slots-not-re-armed", "all-slots-re-armed-after-one"):
                    thread.arm(slots[rank, parity, source], clears=f"partial {number} from {source}")
            for block in every:
                if (block == rank) == (cta == 0):
                    thread.receive(sums[rank, parity, block], f"sum {number}")
                    if fault != "sums-not-re-armed":
                        thread.arm(sums[rank, parity, block], clears=f"sum {number}")
            kernels.after(thread, f"producer {number} of rank {rank}")
            kernels.ends(thread, f"consumer {number} of rank {rank}, CTA {cta}")

    def tail(thread: Thread, rank: int, cta: int) -> None:
        for number, ordinal in layered:
            if ordinal < 0:
                continue
            parity, last = ordinal % 3, number - 1 if ordinal else number - 2
            kernels.released(thread, f"tail {number} of rank {rank}")
            for source in every if cta == 0 else ():
                thread.receive(tail_slots[rank, parity, source], f"latent {number} from {source}")
            for reader in every if cta == 0 else ():
                thread.store(tail_sums[reader, parity, rank], f"tail sum {number}")
            for block in every:
                thread.receive(tail_sums[rank, parity, block], f"tail sum {number}")
                if fault == "tail-re-arms-at-once" and cta == 0:
                    thread.arm(tail_sums[rank, parity, block], clears=f"tail sum {number}")
            for reader in every:
                thread.store(out[reader, rank, cta], f"output {number}")
            past = (ordinal - 1) % count % 3
            for block in every if last > 0 and fault != "tail-re-arms-at-once" else ():  # nothing is armed again that is armed
                box, payload = (tail_sums, f"tail sum {last}") if cta else (tail_slots, f"latent {last} from {block}")
                thread.arm(box[rank, past, block], clears=payload)
            kernels.after(thread, f"experts {number} of rank {rank}")
            kernels.ends(thread, f"tail {number} of rank {rank}, CTA {cta}")

    for rank in every:
        between(system.thread(f"rank {rank}"), rank)
        for cta in CTAS:
            consumer(system.thread(f"rank {rank}'s consumer, CTA {cta}"), rank, cta)
            tail(system.thread(f"rank {rank}'s tail, CTA {cta}"), rank, cta)
    return system


PROTOCOL = Protocol(
    "two_shot",
    build,
    (
        Fault("slots-not-re-armed", "the owner leaves the o-projection's receive slots full", "a lost re-arming: stale sums"),
        Fault("sums-not-re-armed", "readers leave the o-projection's sums full", "a lost re-arming: stale rows two layers later"),
        Fault(
            "all-slots-re-armed-after-one",
            "the owner re-arms all receive slots once the first has come",
            "ROCm/aiter 4977: re-arming and a peer's store in the wrong order",
        ),
        Fault("minus-zero-sent", "a (+0, -0) is pushed", "pack8 without its latent policy; flashinfer 3304, vLLM 35772"),
        Fault("minus-zero-summed", "a sum of (+0, -0) is multicast", "reduce's pack_pair without its latent policy"),
        Fault("front-does-not-wait", "nothing waits for the consumer's end", "griddepcontrol.wait lost in the MoE front"),
        Fault("attn-res-does-not-wait", "nothing waits for the tail's end", "griddepcontrol.wait lost at AttnRes's exit"),
        Fault("tail-re-arms-at-once", "the tail re-arms sums as it reads them", "one protocol's recycling in the other's place"),
        Fault("wrap-forgotten", "MoE layer 0 re-arms (ordinal - 1) % 3", "a parity without the number of MoE layers"),
    ),
    ({"ranks": 2, "layers": 3, "steps": 2}, {"ranks": 2, "layers": 9, "steps": 3}),
    {"ranks": 3, "layers": 9, "steps": 2},
)
