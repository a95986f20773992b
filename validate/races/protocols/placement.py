"""Which CTAs of the TP16 small-batch front hold the shared expert and route: those that happen to run on designated SMs.

vLLM 0.33.0, specialized_decode/cutedsl/moe/small_batch/front_tp16.py, ``FrontPlacement``: ``claim`` (at entry, before any wait:
a relaxed claim, ``red.max`` of the first or, for two tokens, ``red.or`` of the CTA's bit; then every CTA counts its arrival with
release), ``role`` (claimers poll the arrivals with acquire, then read how many claimed and which), ``rearm`` (CTA 0 zeroes the
counters of the other parity at once). Parity is the layer's index modulo 2; the MoE layers are 1 to 92, so that it alternates
over the steps' ends, too. The next front may start early, but not before this one has ended: the input projection between them
releases its dependents after its wait only (dependent_launch).

One thread a CTA. The two relaxed reductions are one cell a CTA, its bit: bits of different CTAs do not meet, and the least set
one is what ``red.max`` keeps. Which CTAs are on designated SMs differs from launch to launch.
"""

from validate.races.protocol import Fault, Protocol
from validate.races.system import System, at_least


def build(*, ctas: int, launches: int, fault: str | None = None) -> System:
    """All CTAs but one, another one in each launch, are on designated SMs. ``launches``: MoE layers, across steps."""
    system = System()
    every = range(ctas)
    claims = [system.cell(f"claims, parity {parity}", 0) for parity in range(2)]
    arrived = [system.cell(f"arrivals, parity {parity}", 0) for parity in range(2)]
    bits = [[system.cell(f"bit of CTA {cta}, parity {parity}", 0) for cta in every] for parity in range(2)]
    ended = system.cell("CTAs that have ended", 0)
    for cta in every:
        thread = system.thread(f"CTA {cta}")
        for launch in range(launches):
            parity, other = (launch + 1) % 2, launch % 2
            if fault == "one-parity":
                parity = other = 0
            designated = [one for one in every if one != launch % ctas]
            if fault != "front-overlaps-front":
                thread.wait(ended, at_least(ctas * launch), "the front before")
            if cta in designated:
                thread.add(claims[parity], release=False)
                thread.store(bits[parity][cta], 1)
            thread.add(arrived[parity], release=fault != "relaxed-arrival")
            if cta == 0 and fault != "not-zeroed":
                thread.store(claims[other], 0)
                if fault != "arrivals-not-zeroed":
                    thread.store(arrived[other], 0)
                for one in every if fault != "first-not-zeroed" else ():
                    thread.store(bits[other][one], 0)
            if cta in designated:
                least = ctas - 1 if fault == "one-arrival-short" else ctas
                thread.wait(arrived[parity], at_least(least), "all CTAs' arrival")
                thread.load(claims[parity], len(designated))
                for one in every:
                    thread.load(bits[parity][one], int(one in designated))
            thread.add(ended)
    return system


PROTOCOL = Protocol(
    "placement",
    build,
    (
        Fault("relaxed-arrival", "a CTA's arrival may overtake its claim", "red.relaxed: two routing CTAs, or none"),
        Fault("one-arrival-short", "the poll is for one CTA fewer", "a grid that was compiled for another number of SMs"),
        Fault("not-zeroed", "no counter is zeroed", "the third launch counts on from the first"),
        Fault("arrivals-not-zeroed", "the arrivals are not zeroed", "the third launch does not wait"),
        Fault("first-not-zeroed", "the bits are not zeroed", "three words zeroed where two tokens need eight"),
        Fault("one-parity", "the launch zeroes the counters that it uses", "parity ^ 1 lost"),
        Fault("front-overlaps-front", "the next front starts before this one has ended", "a projection that releases at entry"),
    ),
    (
        {"ctas": 3, "launches": 3},
        {"ctas": 4, "launches": 2},
    ),
    {"ctas": 5, "launches": 4},
)
