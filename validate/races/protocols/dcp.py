"""MLA under decode context parallelism without collectives: the query to all ranks, partial rows and their LSE to the heads'
owners.

vLLM 0.33.0, specialized_decode/cutedsl/mla/dcp.py (``DcpBox``, ``DcpValue``) and query.py (``MlaQuery.publish``,
``gathered``), three kernels a layer, parity by MLA ordinal modulo 2 (runtime/providers.py; 24 MLA layers are even, so that
parities alternate over the step's wrap):

- ``MlaQuery`` multicasts its head block into all q mailboxes; each of its CTAs polls its share of the own rank's, without
  re-arming;
- tokenspeed, once that kernel has ended, reads the q mailbox as plain memory, all of it in each CTA;
- ``DcpValue``, once tokenspeed has ended, re-arms the q mailbox (each CTA a share), pushes rows and LSE to the owner of their
  head, and in its merging CTAs polls what the others have pushed: the LSE, then the rows, each re-armed at once. It releases
  the o-projection before it merges.

A box's next use, two MLA layers later, comes after o-projection and tail all-reduces, in which a rank takes part once its own
``DcpValue`` has ended. One of them would do, so that a single parity would, too.

Six threads a rank: two CTAs of each of ``MlaQuery`` and ``DcpValue`` (one of them only pushes), tokenspeed, and the
o-projection, whose all-reduce has cells of its own for every layer.
"""

from validate.races.protocol import Fault, Protocol
from validate.races.protocols.kernels import Kernels, all_reduce
from validate.races.system import ARMED, System, Thread

CTAS = (0, 1)


def build(*, ranks: int, layers: int, fault: str | None = None) -> System:
    """``layers``: those with MLA. Steps follow each other as layers do."""
    system, every = System(), range(ranks)
    kernels = Kernels(system)
    shares = [(source, cta) for source in every for cta in CTAS]

    def boxes(what: str) -> dict[tuple[int, int, int, int], str]:
        keys = [(rank, parity, *share) for rank in every for parity in range(2) for share in shares]
        return {key: system.mailbox("{} of rank {}, parity {}, from {}, CTA {}".format(what, *key)) for key in keys}

    query, partial = boxes("q"), boxes("partial")
    lse = {key: system.mailbox("lse of rank {}, parity {}, from {}".format(*key)) for key in {key[:3]: 0 for key in query}}
    output = {rank: system.cell(f"output of rank {rank}", "nothing") for rank in every}

    def ends(thread: Thread, kernel: str, layer: int, rank: int, cta: int) -> None:
        kernels.ends(thread, f"{kernel} {layer} of rank {rank}, CTA {cta}")

    def after(thread: Thread, kernel: str, layer: int, rank: int) -> None:
        kernels.after(thread, *(f"{kernel} {layer} of rank {rank}, CTA {cta}" for cta in CTAS))

    def querying(thread: Thread, rank: int, cta: int) -> None:
        for layer in range(layers):
            if layer:
                kernels.after(thread, f"o-projection {layer - 1} of rank {rank}")
            if cta == 0:
                kernels.releases(thread, f"tokenspeed {layer} of rank {rank}")
            for reader in every:
                thread.store(query[reader, layer % 2, rank, cta], f"q {layer} from {rank}")
            for source in every:
                thread.receive(query[rank, layer % 2, source, 1 - cta], f"q {layer} from {source}")
            ends(thread, "query", layer, rank, cta)

    def tokenspeed(thread: Thread, rank: int) -> None:
        for layer in range(layers):
            kernels.released(thread, f"tokenspeed {layer} of rank {rank}")
            if fault != "tokenspeed-does-not-wait":
                after(thread, "query", layer, rank)
            for source, cta in shares:
                thread.load(query[rank, layer % 2, source, cta], f"q {layer} from {source}")
            kernels.ends(thread, f"tokenspeed {layer} of rank {rank}")

    def value(thread: Thread, rank: int, cta: int) -> None:
        for layer in range(layers):
            if fault == "value-does-not-wait":
                after(thread, "query", layer, rank)
            else:
                kernels.after(thread, f"tokenspeed {layer} of rank {rank}")
            if not (fault == "pushers-do-not-re-arm" and cta == 1):
                for source in every:
                    thread.arm(query[rank, layer % 2, source, cta], clears=f"q {layer} from {source}")
            for owner in every:
                empty = fault == "empty-lse" and layer == 1
                minus_zero = fault == "minus-zero" and layer == 1
                thread.store(partial[owner, layer % 2, rank, cta], ARMED if minus_zero else f"rows {layer} from {rank}")
                if cta == 0:
                    thread.store(lse[owner, layer % 2, rank], ARMED if empty else f"lse {layer} from {rank}")
            if cta == 0:
                kernels.releases(thread, f"o-projection {layer} of rank {rank}")
                for source in every:
                    thread.receive(lse[rank, layer % 2, source], f"lse {layer} from {source}")
                    if fault != "lse-not-re-armed":
                        thread.arm(lse[rank, layer % 2, source], clears=f"lse {layer} from {source}")
                for share in shares:
                    box, payload = partial[rank, layer % 2, *share], f"rows {layer} from {share[0]}"
                    if fault == "rows-not-polled":
                        thread.load(box, payload)
                    else:
                        thread.receive(box, payload)
                    thread.arm(box, clears=payload)
                thread.store(output[rank], f"layer {layer}")
            ends(thread, "value", layer, rank, cta)

    def o_projection(thread: Thread, rank: int) -> None:
        for layer in range(layers):
            kernels.released(thread, f"o-projection {layer} of rank {rank}")
            if fault != "o-projection-does-not-wait":
                after(thread, "value", layer, rank)
            thread.load(output[rank], f"layer {layer}")
            all_reduce(thread, f"o-projection {layer}", rank, every)
            kernels.ends(thread, f"o-projection {layer} of rank {rank}")

    for rank in every:
        for cta in CTAS:
            querying(system.thread(f"rank {rank}'s query, CTA {cta}"), rank, cta)
        tokenspeed(system.thread(f"rank {rank}'s tokenspeed"), rank)
        for cta in CTAS:
            value(system.thread(f"rank {rank}'s value, CTA {cta}"), rank, cta)
        o_projection(system.thread(f"rank {rank}"), rank)
    return system


PROTOCOL = Protocol(
    "dcp",
    build,
    (
        Fault("tokenspeed-does-not-wait", "it reads the query at its launch", "griddepcontrol.wait lost behind an early trigger"),
        Fault("value-does-not-wait", "the query is re-armed once it has come", "griddepcontrol.wait lost in DcpValue"),
        Fault("o-projection-does-not-wait", "it starts when DcpValue releases it", "griddepcontrol.wait lost in the producer"),
        Fault("pushers-do-not-re-arm", "CTAs that only push re-arm no query", "re-arming after the merging CTAs' branch"),
        Fault("lse-not-re-armed", "the owner leaves the LSE", "a lost re-arming: weights of two MLA layers before"),
        Fault("rows-not-polled", "rows are read once and not polled", "DcpValue.merge without its inner poll"),
        Fault("empty-lse", "an empty shard's LSE is sent as NaN", "vllm-ascend 14126, 15237: an empty DCP shard's LSE"),
        Fault("minus-zero", "a row's (+0, -0) is pushed", "DcpValue without no_neg_zero; flashinfer 3304, vLLM 35772"),
    ),
    ({"ranks": 2, "layers": 3}, {"ranks": 2, "layers": 16}),
    {"ranks": 3, "layers": 6},
)
