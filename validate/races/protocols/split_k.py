"""One launch of the split-K projection: warps that hand tiles on inside a CTA, and CTAs that send their sums to the first one.

vLLM 0.33.0, specialized_decode/cutedsl/gemm/splitk.py, ``SplitKGemm``, which names three faults of FlashInfer 0.7.0.post1's
kernel that it corrects. ``weight_warp`` and ``activation_warp`` fill a ring of stages, each mbarrier with an arrival and bytes
from either; ``mma_warp`` frees a stage by tcgen05.commit. The epilogue (``epilog_warp``) reads the sums from tensor memory, which
the MMA warp allocates and frees: one mbarrier of all their threads, whose phase 0 says that the address is there and phase 1 that
the sums have been read. Ranks other than 0 send their sums by st.async; rank 0 announces all their bytes and waits for them.

Rank 0 is four threads: the two loaders (whose bulk copies are stores and bytes), the MMA warp (whose MMAs end before their
commit) and the epilogue warps. Of the other ranks, whose pipelines are the same and meet nobody else's, only the epilogue is
here. Tensor memory that was freed may be another kernel's at once. That loaders stay until their ring is free (``drain``) adds
nothing: the MMA warp waits for all that they load.
"""

from validate.races.mbarrier import mbarrier
from validate.races.protocol import Fault, Protocol
from validate.races.system import System, Thread, at_least

TILE, SUMS = 16, 32  # bytes of a loader's tile and of a rank's sums; any will do
EPILOGUE = 4  # its warps, against one of the MMA


def build(*, ranks: int, tiles: int, stages: int, fault: str | None = None) -> System:
    """``ranks`` of a cluster split K; rank 0's ``tiles`` go through a ring of ``stages``."""
    system = System()
    met = system.cell("arrivals at the cluster's barrier", 0)
    everyone = 4 + ranks - 1
    full = [mbarrier(system, f"full mbarrier {stage}") for stage in range(stages)]
    empty = [mbarrier(system, f"empty mbarrier {stage}") for stage in range(stages)]
    multiplied, tmem, received = (mbarrier(system, f"{name} mbarrier") for name in ("MMA", "tensor memory's", "sums'"))
    address, memory = system.cell("tensor memory's address", "none"), system.cell("tensor memory", "none")
    kinds = ("weights", "activations")
    tile = {(kind, stage): system.cell(f"{kind} in stage {stage}", "none") for kind in kinds for stage in range(stages)}
    sums = {rank: system.cell(f"sums from rank {rank}", "none") for rank in range(1, ranks)}

    def meet(thread: Thread) -> None:
        thread.add(met, release=False)
        if fault != "no-cluster-wait":
            thread.wait(met, at_least(everyone), "all threads of the cluster")

    for kind in kinds:
        loader = system.thread(f"{kind} warp")
        if kind == "weights":  # a thread of warp 0 initialises all
            loaders = 1 if fault == "one-loader-is-enough" else 2
            counts = (
                [(one, loaders) for one in full] + [(one, 1) for one in (*empty, multiplied, received)] + [(tmem, 1 + EPILOGUE)]
            )
            for one, arrivals in counts:
                one.initialise(loader, arrivals)
            if fault != "no-init-fence":
                loader.fence("mbarrier_init_fence")
        meet(loader)
        for number in range(tiles):
            stage = number % stages
            if fault != "ring-not-awaited":
                empty[stage].wait(loader, (number // stages + 1) % 2)
            full[stage].arrive(loader, expect=TILE)
            loader.store(tile[kind, stage], number)
            full[stage].complete(loader, TILE)

    mma = system.thread("MMA warp")
    meet(mma)
    mma.store(address, "address")
    tmem.arrive(mma)
    for number in range(tiles):
        stage = number % stages
        full[stage].wait(mma, number // stages % 2)
        for kind in kinds:
            mma.load(tile[kind, stage], number)
        empty[stage].arrive(mma)
    mma.store(memory, "sums")
    multiplied.arrive(mma)
    if fault != "frees-in-phase-0":
        tmem.wait(mma, 0)
    tmem.arrive(mma)
    tmem.wait(mma, 1)
    mma.store(memory, "another kernel's")

    epilogue = system.thread("epilogue warps")
    meet(epilogue)
    tmem.arrive(epilogue, EPILOGUE)
    tmem.wait(epilogue, 0)
    epilogue.load(address, "address")
    multiplied.wait(epilogue)
    epilogue.load(memory, "sums")
    tmem.arrive(epilogue, EPILOGUE)
    since = len(epilogue.program) if fault == "acquires-for-the-cta-only" else None
    others = {"expects-itself": ranks, "expects-one-fewer": ranks - 2}.get(fault or "", ranks - 1)
    received.arrive(epilogue, expect=others * SUMS)
    received.wait(epilogue)
    for rank in sums:
        epilogue.load(sums[rank], "sums", since=since)

    for rank in sums:
        peer = system.thread(f"epilogue warps of rank {rank}")
        meet(peer)
        peer.store(sums[rank], "sums")
        received.complete(peer, SUMS)
    return system


PROTOCOL = Protocol(
    "split_k",
    build,
    (
        Fault(
            "acquires-for-the-cta-only", "rank 0's wait does not acquire what other CTAs sent", "FlashInfer 0.7.0.post1 (4266)"
        ),
        Fault("frees-in-phase-0", "the MMA warp does not wait for phase 0 before it releases", "FlashInfer 0.7.0.post1"),
        Fault("no-init-fence", "the mbarriers' initialisation is not fenced", "mbarrier_init_fence lost"),
        Fault("no-cluster-wait", "nobody waits for the cluster", "st.async to an mbarrier that is not there"),
        Fault("expects-one-fewer", "rank 0 expects one rank's bytes less", "mailbox_elements for another split"),
        Fault("expects-itself", "rank 0 expects its own bytes, too", "split_k for split_k - 1"),
        Fault("one-loader-is-enough", "a stage is full with one loader's arrival", "1 for 2 in its initialisation"),
        Fault("ring-not-awaited", "loaders do not wait until a stage is free", "the empty mbarrier's first parity off by one"),
    ),
    (
        {"ranks": 2, "tiles": 2, "stages": 1},
        {"ranks": 3, "tiles": 3, "stages": 2},
        {"ranks": 4, "tiles": 4, "stages": 3},
    ),
    {"ranks": 4, "tiles": 5, "stages": 2},
)
