"""The MoE of one or two tokens: kernels that are all released at their entry and find each other's data by polling.

vLLM 0.33.0, specialized_decode/cutedsl/moe/small_batch (chain.py: ``SmallBatchBox``, ``SmallBatchChain``), as TP16 runs it;
parities are the layer's index modulo 2, or for G, W and S the MoE ordinal modulo 3:

- oproj/consumer.py, ``publish``: the o-projection's consumer stores the row x_moe and counts up a hint of its epoch, both
  relaxed;
- front_tp16.py, ``MoeFrontTP16``: each CTA re-arms its part of the other parity (x_moe, scores, the latent box h2), CTA 0
  zeroes the other epoch; once the hint has counted up it polls x_moe, multicasts its latent columns to h2 of all ranks and
  stores its scores. The CTA that routes polls all scores, and stores the experts' ids and W; S (the shared expert) comes from
  others;
- experts.py, ``ClusterExpertsTP16``: each CTA of a cluster polls its id and half of h2. They exchange hidden rows in
  distributed shared memory, after which one re-arms the id; G leaves;
- tail.py, ``MoeTail`` with ``front_poll``: polls G, W and S, and re-arms those of the MoE layer before, ``(ordinal - 1) % 92 %
  3``.

The hint is no flag: it saves polling, and were it never zeroed, nothing would go wrong. Since front and experts wait for
nobody before they work, one thread of each waits at its exit (griddepcontrol.wait), so that the tail's end covers the
o-projection's consumer and all that it re-arms. The next layer's kernels start after the tail's end: the input projection
between them waits before it releases any. But the tail sends its part of the all-reduce before it waits. So at the step's
wrap, where layers 92 and 0 use one parity of the o-projection's mailboxes, it takes the collectives between steps to keep them
apart: the embedding's all-reduce (common/embedding.py), or the logits' gather.

Six threads on rank 0: the o-projection with its real mailboxes (o_proj.py; re-armed by warps that nothing orders before
x_moe), two CTAs of the front, of which the first routes, two of an expert's cluster, and the tail, whose all-reduce is not
looked into, nor is layer 0's dense MLP. The other ranks are a thread each that sends what rank 0 gets from them. Gate and up
rows (hg) are recycled as scores are.
"""

from validate.races.protocol import Fault, Protocol
from validate.races.protocols.kernels import Kernels, all_reduce
from validate.races.system import ARMED, System, Thread, at_least

CTAS = (0, 1)
INPUTS = (("G", 0), ("G", 1), ("W", 0), ("S", 1))  # of the tail, each from the CTA of that number


def build(*, ranks: int, layers: int, steps: int, fault: str | None = None) -> System:
    """``layers``: 3 modulo 6, as 93 is. The first has no MoE."""
    system, every, numbers = System(), range(ranks), range(layers * steps)
    kernels = Kernels(system)
    hint = [system.cell(f"hint, parity {parity}", 0) for parity in range(2)]

    def box(*name: object) -> str:
        cell = " ".join(map(str, name))
        return cell if cell in system.place else system.mailbox(cell, end="any")

    def moe(number: int) -> bool:
        return number % layers > 0

    def starts(thread: Thread, number: int) -> None:
        if number:
            kernels.after(thread, f"layer {number - 1}")

    def between_steps(thread: Thread, rank: int, number: int) -> None:
        if number % layers == 0 and fault != "nothing-between-steps":
            all_reduce(thread, f"embedding {number}", rank, every)

    def exchange(thread: Thread, rank: int, number: int) -> None:
        for reader in every:
            thread.store(box("mail of", reader, "parity", number % layers % 2, "from", rank), f"{number} from {rank}")
        for source in every:
            thread.receive(box("mail of", rank, "parity", number % layers % 2, "from", source), f"{number} from {source}")

    def re_arms(thread: Thread, rank: int, number: int) -> None:
        for source in every:
            thread.arm(box("mail of", rank, "parity", number % layers % 2, "from", source), clears=f"{number} from {source}")

    def o_projection(thread: Thread) -> None:
        for number in numbers:
            parity = number % layers % 2
            starts(thread, number)
            between_steps(thread, 0, number)
            exchange(thread, 0, number)
            for part in CTAS if moe(number) else ():
                minus_zero = fault == "minus-zero" and number == 2 and part == 1
                thread.store(box("x_moe parity", parity, part), ARMED if minus_zero else f"{number}")
                thread.add(hint[parity], release=False)
            re_arms(thread, 0, number)
            kernels.ends(thread, f"o-projection {number}")
            if not moe(number):
                kernels.after(thread, f"o-projection {number}")
                all_reduce(thread, f"dense {number}", 0, every)
                kernels.ends(thread, f"layer {number}")

    def front(thread: Thread, cta: int) -> None:
        last = 0
        for number in filter(moe, numbers):
            parity, ordinal = number % layers % 2, number % layers - 1
            starts(thread, number)
            if cta == 0:
                thread.store(hint[parity if fault == "hint-of-its-own-parity" else 1 - parity], 0)
            if last and fault != "x-moe-not-re-armed":
                thread.arm(box("x_moe parity", 1 - parity, cta), clears=f"{last}")
            if last:
                thread.arm(box("score parity", 1 - parity, cta), clears=f"{last}")
            for source in every if last and cta == 1 and fault != "h2-not-re-armed" else ():
                thread.arm(box("h2 parity", 1 - parity, "from", source), clears=f"{last} from {source}")
            thread.wait(hint[parity], at_least(len(CTAS)), "the hint")
            for part in CTAS:
                if fault == "hint-as-flag":
                    thread.load(box("x_moe parity", parity, part), f"{number}")
                else:
                    thread.receive(box("x_moe parity", parity, part), f"{number}", group=number)
            if cta == 1:
                thread.store(box("h2 parity", parity, "from", 0), f"{number} from 0")
            thread.store(box("score parity", parity, cta), f"{number}")
            for part in CTAS if cta == 0 else ():
                thread.receive(box("score parity", parity, part), f"{number}")
            if cta == 0:
                thread.store(box("id"), f"{number}")
            thread.store(box("WS"[cta], ordinal % 3, cta), f"{number}")
            if cta == 0 and fault != "front-does-not-wait-at-its-exit":
                kernels.after(thread, f"o-projection {number}")
            kernels.ends(thread, f"front {number}, CTA {cta}")
            last = number

    def experts(thread: Thread, cta: int) -> None:
        for number in filter(moe, numbers):
            parity, ordinal = number % layers % 2, number % layers - 1
            starts(thread, number)
            thread.receive(box("id"), f"{number}")
            if fault == "id-re-armed-at-once" and cta == 0:
                thread.arm(box("id"), clears=f"{number}")
            for source in (source for source in every if source * 2 // ranks == cta):
                thread.receive(box("h2 parity", parity, "from", source), f"{number} from {source}")
            kernels.releases(thread, f"second half of experts {number}, CTA {1 - cta}")
            kernels.released(thread, f"second half of experts {number}, CTA {cta}")
            thread.store(box("G", ordinal % 3, cta), f"{number}")
            if cta == 0 and fault not in ("id-re-armed-at-once", "id-not-re-armed"):
                thread.arm(box("id"), clears=f"{number}")
            if cta == 0:
                kernels.after(thread, *(f"front {number}, CTA {one}" for one in CTAS))
            kernels.ends(thread, f"experts {number}, CTA {cta}")

    def tail(thread: Thread) -> None:
        last = 0
        for number in filter(moe, numbers):
            ordinal = number % layers - 1
            for what, cta in INPUTS:
                thread.receive(box(what, ordinal % 3, cta), f"{number}")
            all_reduce(thread, f"tail {number}", 0, every)
            kernels.after(thread, *(f"experts {number}, CTA {cta}" for cta in CTAS))
            past = (ordinal - 1) % (3 if fault == "wrap-forgotten" else layers - 1) % 3
            for what, cta in INPUTS if last else ():
                thread.arm(box(what, past, cta), clears=f"{last}")
            kernels.ends(thread, f"layer {number}")
            last = number

    def another(thread: Thread, rank: int) -> None:
        for number in numbers:
            between_steps(thread, rank, number)
            exchange(thread, rank, number)
            re_arms(thread, rank, number)
            if moe(number):
                thread.store(box("h2 parity", number % layers % 2, "from", rank), f"{number} from {rank}")
            thread.fence("its kernels have ended")
            all_reduce(thread, f"{'tail' if moe(number) else 'dense'} {number}", rank, every)

    o_projection(system.thread("o-projection"))
    for cta in CTAS:
        front(system.thread(f"front, CTA {cta}"), cta)
        experts(system.thread(f"experts, CTA {cta}"), cta)
    tail(system.thread("tail"))
    for rank in every[1:]:
        another(system.thread(f"rank {rank}"), rank)
    return system


PROTOCOL = Protocol(
    "small_batch",
    build,
    (
        Fault(
            "hint-as-flag", "x_moe is read once the hint has counted up", "gather_x without its poll: no access orders the two"
        ),
        Fault("hint-of-its-own-parity", "the front zeroes the epoch that it waits for", "par for par ^ 1"),
        Fault(
            "x-moe-not-re-armed", "the front leaves the other parity's x_moe", "a lost re-arming: the row of two layers before"
        ),
        Fault(
            "h2-not-re-armed", "the front leaves the other parity's latent box", "a lost re-arming: latent of two layers before"
        ),
        Fault("id-not-re-armed", "the experts leave their ids", "a lost re-arming: the layer before's experts"),
        Fault("id-re-armed-at-once", "a CTA re-arms its cluster's id before the others have read it", "ROCm/aiter 4977"),
        Fault("front-does-not-wait-at-its-exit", "nothing waits for the o-projection's end", "griddepcontrol.wait lost (M8)"),
        Fault(
            "nothing-between-steps",
            "no collective stands between layer 92 and the next step's layer 0",
            "an embedding or logits that every rank has whole: two layers of one parity with only the tail between",
        ),
        Fault("wrap-forgotten", "MoE layer 0 re-arms (ordinal - 1) % 3", "a parity without the number of MoE layers"),
        Fault("minus-zero", "a (+0, -0) in x_moe", "publish without its latent policy; flashinfer 3304, vLLM 35772"),
    ),
    ({"ranks": 2, "layers": 3, "steps": 2}, {"ranks": 2, "layers": 3, "steps": 3}),
    {"ranks": 3, "layers": 9, "steps": 2},
)
