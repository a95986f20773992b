"""The fused shared expert's barrier over its grid: every CTA writes columns of h, all wait for all, and read whole rows of it.

vLLM 0.33.0, specialized_decode/cutedsl/moe/shared.py, ``SharedUmma`` (batches above 8 that are not split): ``reduce`` (h, then a
barrier of the CTA, ``fence_acq_rel_gpu`` and ``release_count`` by thread 0) and ``stream`` (``wait_count``, an acquiring poll for
all 120 CTAs, ``fetch_count`` of those that have come through, whose last one zeroes both counters; then a barrier of the CTA, and
``load_rows``). The counters are one pair for all layers (``scratch``). Launches follow each other on the side stream
without programmatic overlap, so the next begins once all CTAs have ended, with their stores visible. The parts that a cluster's
CTAs send to h's owners before are kda_cluster's protocol.

One thread a CTA. The fence and the count's own release say the same twice: without either one the other suffices.
"""

from functools import partial

from validate.races.protocol import Fault, Protocol
from validate.races.system import System, Thread, at_least


def build(*, ctas: int, launches: int, fault: str | None = None) -> System:
    """``launches``: layers, one after another."""
    system = System()
    every = range(ctas)
    ready, through = system.cell("h ready", 0, end=0), system.cell("through", 0, end=0)
    ended = system.cell("CTAs that have ended", 0)
    h = [system.cell(f"h's columns of CTA {cta}", "none") for cta in every]
    last = 0 if fault == "first-resets" else ctas - 1

    def reset(thread: Thread) -> None:
        if fault != "not-reset":
            thread.store(ready, 0)
        if fault != "exit-count-not-reset":
            thread.store(through, 0)

    for cta in every:
        thread = system.thread(f"CTA {cta}")
        for launch in range(launches):
            thread.wait(ended, at_least(ctas * launch), "the launch before")
            thread.store(h[cta], launch)
            thread.add(ready, release=fault != "relaxed-count")
            before_poll = len(thread.program)
            thread.wait(ready, at_least(ctas - 1 if fault == "one-cta-short" else ctas), "all CTAs' h")
            since = before_poll if fault == "relaxed-poll" else len(thread.program)
            thread.add(through, into="before", release=False)
            thread.when(lambda registers: registers["before"] == last, partial(reset, thread))
            for other in every:
                if other != cta:
                    thread.load(h[other], launch, since=since)
            thread.add(ended)
    return system


PROTOCOL = Protocol(
    "shared_experts",
    build,
    (
        Fault("relaxed-count", "neither the fence nor the release before a CTA counts", "red.relaxed for red.release"),
        Fault("relaxed-poll", "the poll for all CTAs acquires nothing", "ld.relaxed or ld.volatile for ld.acquire"),
        Fault("one-cta-short", "the poll is for one CTA fewer", "GRID and the launched grid differ, as tiles change"),
        Fault("not-reset", "the last CTA leaves the count as it is", "a counter that is zeroed at start only: the second layer"),
        Fault("exit-count-not-reset", "only the first counter is zeroed", "as before, one layer later"),
        Fault("first-resets", "the first CTA through zeroes the counters", "fetch_count's value compared with the wrong end"),
    ),
    (
        {"ctas": 2, "launches": 3},
        {"ctas": 3, "launches": 2},
    ),
    {"ctas": 6, "launches": 4},
)
