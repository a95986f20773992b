"""One launch of the KDA recurrence: a cluster's CTAs send each other decays and outputs, straight into shared memory.

vLLM 0.33.0, specialized_decode/cutedsl/kda/kernel.py, ``KdaSplit``. ``setup``: thread 0 arms the decay mbarrier (512 bytes a
token) and one mbarrier for each token whose output this CTA normalises (512 bytes; token t is CTA t % C's). ``gate_warp`` and
``multicast`` send a CTA's share of the decays to all CTAs, ``kernel`` its rows' outputs to the token's owner, both by st.async,
whose bytes count once the data is there. Nobody may send before the receivers have armed: all threads arrive at the cluster's
barrier (relaxed, but after ``mbarrier_init_fence``) and wait for it before anything else, or, where ``early``, before their own
first sending. Main warps other than thread 0's know through a barrier of the CTA (number 1) that the mbarriers are there.

Three threads a CTA: thread 0's warp, the other main warps, the gate warp. Shared memory and mbarriers are new in every launch. No
CTA can leave while something is on its way to it, since each waits for all that it gets. The main warps' wait for the cluster
before their first sending (``early``) adds nothing: the decays that they have waited for come from all CTAs, each of which has
waited for the cluster by then.
"""

from validate.races.mbarrier import Mbarrier, mbarrier
from validate.races.protocol import Fault, Protocol
from validate.races.system import System, Thread, at_least

TOKEN = 512  # bytes of a token's decays, and of its outputs: 128 fp32 values


def build(*, ctas: int, tokens: int, early: int, fault: str | None = None) -> System:
    """``ctas`` a cluster, a power of two; ``tokens`` a request; ``early`` 1: schedules that load before the dependency wait."""
    system = System()
    every, mains = range(ctas), ("first", "other")
    expected = {"ninth-token": tokens + 1, "bytes-of-one-token-fewer": tokens - 1}.get(fault or "", tokens)
    owned = -(-tokens // ctas)  # output mbarriers a CTA
    gate_full = [mbarrier(system, f"decay mbarrier of CTA {cta}") for cta in every]
    out_full = [[mbarrier(system, f"output mbarrier {k} of CTA {cta}") for k in range(owned)] for cta in every]
    met = system.cell("arrivals at the cluster's barrier", 0)
    inside = [system.cell(f"arrivals at CTA {cta}'s barrier 1", 0) for cta in every]
    decay = {
        (to, src, t): system.cell(f"token {t}'s decays from CTA {src} at CTA {to}", "none")
        for to in every
        for src in every
        for t in range(tokens)
    }
    outputs = {
        (src, warp, t): system.cell(f"token {t}'s outputs from the {warp} warps of CTA {src}", "none")
        for src in every
        for warp in mains
        for t in range(tokens)
    }

    def outputs_of(token: int) -> Mbarrier:
        return out_full[token % ctas][0 if fault == "one-output-mbarrier" else token // ctas]

    def arm(thread: Thread, cta: int) -> None:
        own = [out_full[cta][k] for k in range(owned) if cta + k * ctas < tokens]
        for one, count in [*((one, 1) for one in own), (gate_full[cta], expected)]:
            one.initialise(thread, 1, expect=count * TOKEN)
        if fault != "no-init-fence":
            thread.fence("mbarrier_init_fence")

    def meet(thread: Thread) -> None:
        thread.wait(met, at_least(3 * ctas), "all threads of the cluster")

    for cta in every:
        gate = system.thread(f"gate warp of CTA {cta}")
        gate.add(met, release=False)
        if fault != "sends-at-once":
            meet(gate)
        for t in range(tokens):
            for to in every:
                gate.store(decay[to, cta, t], "decays")
                gate_full[to].complete(gate, TOKEN // ctas)
        for warp in mains:
            thread = system.thread(f"{warp} main warps of CTA {cta}")
            if warp == "other" or fault == "arrives-before-arming":
                thread.add(met, release=False)
            if warp == "first":
                arm(thread, cta)
                if fault != "arrives-before-arming":
                    thread.add(met, release=False)
            if not early:
                meet(thread)
            thread.add(inside[cta])
            if fault != "no-barrier-inside":
                thread.wait(inside[cta], at_least(2), "the CTA's main warps")
            gate_full[cta].wait(thread)
            for t in range(tokens):
                for src in every:
                    thread.load(decay[cta, src, t], "decays")
                if early and t == 0:
                    meet(thread)
                thread.store(outputs[cta, warp, t], "outputs")
                outputs_of(t).complete(thread, TOKEN // ctas // 2)
            for t in range(cta, tokens, ctas):
                outputs_of(t).wait(thread)
                for src in every:
                    for part in mains:
                        thread.load(outputs[src, part, t], "outputs")
    return system


PROTOCOL = Protocol(
    "kda_cluster",
    build,
    (
        Fault("bytes-of-one-token-fewer", "the decay mbarrier expects one token less", "512 bytes for 512 bytes a token"),
        Fault(
            "ninth-token", "it expects a token that the gate warp never sends", "KdaSplit's own limit of 8 tokens, not enforced"
        ),
        Fault("one-output-mbarrier", "a CTA's tokens share an output mbarrier", "bytes of token t + C count for token t"),
        Fault("sends-at-once", "the gate warp does not wait for the cluster", "cluster_wait lost before the first sending"),
        Fault("no-init-fence", "the mbarriers' initialisation is not fenced", "mbarrier_init_fence lost in setup"),
        Fault("arrives-before-arming", "thread 0 arms after its arrival", "the order of setup's last two lines"),
        Fault(
            "no-barrier-inside",
            "other main warps do not wait for thread 0's arming",
            "barrier 1 lost, where the CTA starts early",
        ),
    ),
    (
        {"ctas": 2, "tokens": 3, "early": 1},
        {"ctas": 2, "tokens": 3, "early": 0},
        {"ctas": 2, "tokens": 4, "early": 1},
    ),
    {"ctas": 4, "tokens": 5, "early": 1},
)
