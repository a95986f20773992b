"""The persistent experts: CTAs that exchange sums and hidden rows through a workspace, and count their calls in it.

vLLM 0.33.0, specialized_decode/cutedsl/moe/experts.py, ``ExpertsKernel``. ``kernel``: an entry wait for the predecessor (by
dependent_launch, for the call before, too); the CTA's own call counter, whose parity names the half of the hidden images; at the
end the counter goes on, and so do those of CTAs that this grid lacks, for grids change with the batch (``counters[grid + cta]``).
Batches above 8 (grouped) count in a second row of counters and have images of their own. ``partials``: a CTA that has only part
of a tile's K leaves its sums, whose owner polls them, adds them up and re-arms at once. ``store_hidden``, ``poll_hidden``: the
owner writes the image, all that need it poll. ``rearm``, by a warp of its own from the start: the images of the other parity, as
many as the grouped call before has used (which CTA 0 has noted), and the claims. ``claims``: jobs of a CTA are taken from one
counter a parity and CTA, by the owner from the front, by others from the back. ``finalize``: rows are polled and re-armed by one
reader.

All calls count in the first row, so that the images of batches up to 8 are in the right half only if the grouped calls between
two others are even: they are, since a step is of one kind and has 92 MoE layers. An odd number is not refused (``odd-layers``).
With 92 a smaller grid's step leaves a multiple of 92 uncounted at CTAs that it lacks, so that their counting is needed for odd
ones only.

One thread a CTA; what other warps do at the same time comes first in its program, since stores may come late. Counters are modulo
2. ``kinds`` 1: grouped steps on all CTAs, all but one (with fewer units) and all; 2: with others, on all but one, between them.
"""

from functools import partial
from typing import cast

from validate.races.protocol import Fault, Protocol
from validate.races.system import ARMED, Registers, System, Thread, Value, at_least


def calls_of(ctas: int, steps: int, layers: int, kinds: int) -> list[tuple[bool, int, int]]:
    """Whether it is grouped, its CTAs, its units."""
    other, many, few = (False, ctas - 1, 1), (True, ctas, 2), (True, ctas - 1, 1)
    pattern = (many, few, many) if kinds == 1 else (other, many, other, few, many)
    return [pattern[step % len(pattern)] for step in range(steps) for _ in range(layers)]


def build(*, ctas: int, steps: int, layers: int, kinds: int, jobs: int, fault: str | None = None) -> System:
    """``ctas``: the largest grid. ``layers`` a step: even if there are two ``kinds``. ``jobs`` of a CTA that may be claimed."""
    kinds, layers = (2, 1) if fault == "odd-layers" else (kinds, layers)
    system = System()
    every, units = range(ctas), range(2)
    counts = {kind: [system.cell(f"{kind} calls, CTA {cta}", 1) for cta in every] for kind in ("all", "grouped")}
    noted = [system.cell(f"units of the grouped call of parity {parity}", 0) for parity in range(2)]
    ended = system.cell("CTAs that have ended", 0)
    image = {
        (grouped, parity, unit): system.mailbox(f"{'grouped ' * grouped}image {unit}, parity {parity}", end="any")
        for grouped in (False, True)
        for parity in range(2)
        for unit in units
    }
    sums = {(unit, cta): system.mailbox(f"sums of CTA {cta} for unit {unit}") for unit in units for cta in every}
    row = {(cta, job): system.mailbox(f"row of job {job} of CTA {cta}") for cta in every for job in range(jobs)}
    claims = [[system.cell(f"claims of CTA {cta}'s jobs, parity {parity}", (0, 0)) for cta in every] for parity in range(2)]

    def rearm(thread: Thread, cta: int, call: tuple[bool, int, int], parity: int) -> None:
        grouped, grid, now = call
        other = parity if fault == "rearms-its-own-parity" else 1 - parity
        if grouped:
            thread.load(noted[1 - parity], into="used")
        for unit in units:
            if unit % grid == cta:
                again = partial(thread.arm, image[grouped, other, unit])
                if not grouped or (fault == "rearms-as-many-as-now" and unit < now):
                    again()
                elif fault != "rearms-as-many-as-now":
                    thread.when(partial(_used_more, than=unit), again)
        if grouped:
            for one in (cta, grid + cta):
                if one == cta or (one < ctas and fault != "claims-of-missing-ctas"):
                    thread.store(claims[other][one], (0, 0))

    def claim(thread: Thread, number: int, parity: int, owner: int, back: bool) -> None:
        """Jobs of ``owner`` until there are no more."""
        change = partial(_claimed, back=back)
        one_more = partial(thread.atomic, claims[parity][owner], change, "claim", into="claim", release=False)
        one_more()
        for _ in range(jobs):
            for job in range(jobs):
                done = partial(thread.store, row[owner, job], number)
                thread.when(partial(_takes, jobs=jobs, job=job, back=back), done)
            thread.when(partial(_some_left, jobs=jobs), one_more)

    def run(thread: Thread, cta: int, number: int, call: tuple[bool, int, int], parity: int) -> None:
        grouped, grid, now = call
        rearm(thread, cta, call, parity)
        for unit in range(now):
            piece = (unit + 1) % grid if grid > 1 else None
            if cta == piece:
                thread.store(sums[unit, cta], number)
            if cta == unit % grid:
                if piece is not None:
                    thread.receive(sums[unit, piece], number)
                    if fault != "sums-not-rearmed":
                        thread.arm(sums[unit, piece], clears=number)
                thread.store(image[grouped, parity, unit], ARMED if fault == "ff-byte" and number == 1 else number)
        thread.receive(image[grouped, parity, cta % now], number)
        if grouped:
            claim(thread, number, parity, cta, back=False)
            if cta + 1 < grid:
                claim(thread, number, parity, cta + 1, back=True)
            if cta == 0:
                thread.store(noted[parity], now)
        else:
            thread.store(row[cta, 0], number)
        for job in range(jobs if grouped else 1):
            reads = row[(cta + 1) % grid, job]
            thread.receive(reads, number)
            thread.arm(reads, clears=number)

    def count(thread: Thread, cta: int, grid: int, kind: str, before: int) -> None:
        for one in (cta, grid + cta):
            if one == cta or (one < ctas and fault != "calls-of-missing-ctas"):
                thread.store(counts[kind][one], 1 - before)

    for cta in every:
        thread, begun = system.thread(f"CTA {cta}"), 0
        for number, call in enumerate(calls_of(ctas, steps, layers, kinds)):
            grouped, grid, _ = call
            if cta < grid:
                if fault != "no-entry-wait":
                    thread.wait(ended, at_least(begun), "the call before")
                for kind in counts:
                    thread.load(counts[kind][cta], into=kind)
                names = "grouped" if grouped else "all"
                for parity in range(2):
                    thread.when(partial(_is, kind=names, value=parity), partial(run, thread, cta, number, call, parity))
                for kind in ("all", "grouped") if grouped else ("all",):
                    for before in range(2):
                        thread.when(partial(_is, kind=kind, value=before), partial(count, thread, cta, grid, kind, before))
                thread.add(ended)
            begun += grid
    return system


def _is(registers: Registers, *, kind: str, value: int) -> bool:
    return registers[kind] == value


def _claimed(pair: Value, *, back: bool) -> Value:
    """Claims from the front and from the back, one more."""
    front, rear = cast(tuple[int, int], pair)
    return (front, rear + 1) if back else (front + 1, rear)


def _some_left(registers: Registers, *, jobs: int) -> bool:
    front, rear = cast(tuple[int, int], registers["claim"])
    return front + rear < jobs


def _takes(registers: Registers, *, jobs: int, job: int, back: bool) -> bool:
    front, rear = cast(tuple[int, int], registers["claim"])
    return front + rear < jobs and job == (jobs - 1 - rear if back else front)


def _used_more(registers: Registers, *, than: int) -> bool:
    return cast(int, registers["used"]) > than


PROTOCOL = Protocol(
    "experts",
    build,
    (
        Fault(
            "calls-of-missing-ctas", "a smaller grid leaves the other CTAs' call counters alone", "parities apart: batch 4, 7, 4"
        ),
        Fault("claims-of-missing-ctas", "it leaves their claims alone", "jobs that nobody takes once the grid is large again"),
        Fault(
            "odd-layers",
            "a step has one MoE layer, and its kinds alternate",
            "another model: the images of parity p again, not re-armed",
        ),
        Fault(
            "rearms-as-many-as-now", "as many images are re-armed as this call has units", "a batch that is smaller, then larger"
        ),
        Fault("rearms-its-own-parity", "the call re-arms the parity that it uses", "& 1 ^ 1 lost"),
        Fault("sums-not-rearmed", "the owner does not re-arm a CTA's sums", "stale sums, silent"),
        Fault("no-entry-wait", "a CTA begins while others are in the call before", "the entry wait, or one before it, lost"),
        Fault("ff-byte", "a hidden byte is 0xFF", "e4m3's NaN without satfinite"),
    ),
    (
        {"ctas": 2, "steps": 3, "layers": 1, "kinds": 1, "jobs": 1},
        {"ctas": 2, "steps": 4, "layers": 2, "kinds": 2, "jobs": 1},
        {"ctas": 2, "steps": 3, "layers": 1, "kinds": 1, "jobs": 2},
    ),
    {"ctas": 4, "steps": 10, "layers": 2, "kinds": 2, "jobs": 3},
)
