"""The MoE tail's all-reduce: latent partials and shared-expert shards in, output rows to the next AttnRes.

vLLM 0.33.0, specialized_decode/cutedsl/moe/tail_runtime.py (``MoeTailBox``, ``MoeTailWeights``) and tail.py
(``WaveMoeTail.poll_inputs``, ``read_reduced``, ``write_line``, ``rearm_rows``), at TP8 9 to 64 and TP16 9 to 32 tokens:

- latent [3, TP, 64, 3584]: the experts (experts.py, ``finalize``) multicast; one row cluster of each rank sums a row;
- reduced [3, 64, 3584]: that sum, local, polled by all seven row clusters;
- rs [3, TP, 64, 7168 / TP]: the shared expert's shards by peer stores, polled by the row cluster that adds them;
- out [1, 64, 7168]: the tail multicasts, and the next AttnRes (attn_res/kernel.py, ``ClusterAttnRes.post``) polls and re-arms
  at once.

The other three rotate by MoE ordinal modulo 3. The launch of ordinal n, having sent its output, re-arms what the one before it
has read, ``(n - 1) % 92 % 3``: as many rows as its own batch has, at ordinal 0 as the largest batch. AttnRes's exit waits for
the tail's end (griddepcontrol.wait), and the o-projection's all-reduce comes after that on every rank and before the experts:
what a tail has re-armed is armed before the next layer's experts publish anything. 92 is 2 modulo 3: at the step's wrap a
parity is used again after a single layer, so it is that order, not the third parity, which makes it safe. The largest batch is
a margin, too: a step's ordinal 0 re-arms the rows that its own ordinal 1 will use before they are written.

Three threads a rank: the stream's other kernels, with an o-projection that is not looked into, and two CTAs of the tail, of
different row clusters. Batches alternate between one row and ``rows``.
"""

from collections.abc import Sequence

from validate.races.protocol import Fault, Protocol
from validate.races.protocols.kernels import Kernels, all_reduce
from validate.races.system import ARMED, System, Thread

CTAS = (0, 1)


def build(*, ranks: int, layers: int, steps: int, rows: int, fault: str | None = None) -> System:
    """``layers``: those with MoE, 2 modulo 3 as 92 is. ``rows``: the largest batch."""
    layers += 2 if fault == "layers-one-modulo-three" else 0
    system, every, numbers = System(), range(ranks), range(layers * steps)
    kernels = Kernels(system)
    rotating = [(rank, parity, row) for rank in every for parity in range(3) for row in range(rows)]

    def boxes(what: str, keys: Sequence[tuple[int, ...]], names: str) -> dict[tuple[int, ...], str]:
        return {key: system.mailbox(f"{what} of rank " + names.format(*key), end="any") for key in keys}

    latent = boxes("latent", [(*key, source) for key in rotating for source in every], "{}, parity {}, row {}, from {}")
    reduced = boxes("reduced", rotating, "{}, parity {}, row {}")
    sources = [(source, cta) for source in every for cta in CTAS]
    rs = boxes("rs", [(*key, *source) for key in rotating for source in sources], "{}, parity {}, row {}, from {} for CTA {}")
    out = boxes(
        "out", [(r, row, *source) for r in every for row in range(rows) for source in sources], "{}, row {}, from {}, CTA {}"
    )

    def batch(number: int) -> range:
        return range(rows if number // layers % 2 else 1)

    def between(thread: Thread, rank: int) -> None:
        for number in numbers:
            parity = number % layers % 3
            if number:
                for row in batch(number - 1):
                    for source in sources:
                        thread.receive(out[rank, row, *source], f"out {number - 1}")
                        if fault != "out-not-re-armed":
                            thread.arm(out[rank, row, *source], clears=f"out {number - 1}")
                if fault != "attn-res-does-not-wait":
                    kernels.after(thread, *(f"tail {number - 1} of rank {rank}, CTA {cta}" for cta in CTAS))
            thread.fence("AttnRes has ended")
            all_reduce(thread, f"o-projection {number}", rank, every)
            kernels.releases(thread, f"tail {number} of rank {rank}")
            for row in batch(number):
                for reader in every:
                    minus_zero = fault == "minus-zero" and number == 1
                    thread.store(latent[reader, parity, row, rank], ARMED if minus_zero else f"{number} from {rank}")
                    for cta in CTAS:
                        thread.store(rs[reader, parity, row, rank, cta], f"{number} from {rank}")
            kernels.ends(thread, f"experts {number} of rank {rank}")

    def tail(thread: Thread, rank: int, cta: int) -> None:
        for number in numbers:
            ordinal = number % layers
            parity = ordinal % 3
            kernels.released(thread, f"tail {number} of rank {rank}")
            for row in batch(number):
                for source in every if row % 2 == cta else ():
                    thread.receive(latent[rank, parity, row, source], f"{number} from {source}")
                if row % 2 == cta:
                    thread.store(reduced[rank, parity, row], f"{number}")
                for source in every:
                    thread.receive(rs[rank, parity, row, source, cta], f"{number} from {source}")
            for row in batch(number):
                thread.receive(reduced[rank, parity, row], f"{number}")
                for reader in every:
                    thread.store(out[reader, row, rank, cta], f"out {number}")
            past = (ordinal - 1) % (3 if fault == "wrap-forgotten" else layers) % 3
            again: list[tuple[str, str]] = []
            for row in rearmed(number):
                if cta == 1:
                    again.append((reduced[rank, past, row], f"{number - 1}"))
                for source in every:
                    if row % 2 == cta:
                        again.append((latent[rank, past, row, source], f"{number - 1} from {source}"))
                    again.append((rs[rank, past, row, source, cta], f"{number - 1} from {source}"))
            for cell, payload in again:
                thread.arm(cell, clears=payload)
            kernels.after(thread, f"experts {number} of rank {rank}")
            kernels.ends(thread, f"tail {number} of rank {rank}, CTA {cta}")

    def rearmed(number: int) -> range:
        """Rows that the launch before has read. What is armed already is not armed again here, which the kernel does."""
        least = 1 if fault == "one-row-not-re-armed" else 0
        return batch(number - 1)[: len(batch(number - 1)) - least] if number else range(0)

    for rank in every:
        between(system.thread(f"rank {rank}"), rank)
        for cta in CTAS:
            tail(system.thread(f"rank {rank}'s tail, CTA {cta}"), rank, cta)
    return system


PROTOCOL = Protocol(
    "moe_tail",
    build,
    (
        Fault("wrap-forgotten", "MoE layer 0 re-arms (ordinal - 1) % 3", "a parity without the number of MoE layers"),
        Fault(
            "layers-one-modulo-three",
            "four MoE layers: the last and the first share a parity",
            "MoeTailWeights without its check",
        ),
        Fault("one-row-not-re-armed", "one row fewer is re-armed than the batch has", "a loop over rows that ends one early"),
        Fault("out-not-re-armed", "AttnRes leaves the output rows", "a lost re-arming: the layer before's output"),
        Fault("attn-res-does-not-wait", "nothing waits for the tail's end", "griddepcontrol.wait lost at AttnRes's exit (M8)"),
        Fault("minus-zero", "a latent (+0, -0) is published", "finalize without its latent policy; flashinfer 3304, vLLM 35772"),
    ),
    (
        {"ranks": 2, "layers": 2, "steps": 2, "rows": 2},
        {"ranks": 2, "layers": 8, "steps": 3, "rows": 2},
        {"ranks": 2, "layers": 92, "steps": 1, "rows": 1},
    ),
    {"ranks": 3, "layers": 5, "steps": 4, "rows": 3},
)
