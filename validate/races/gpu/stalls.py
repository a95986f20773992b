"""Delays placed into copies of vLLM's files: one thread block or warp is held up inside the window of a synchronisation.

Which bug they guard against: a barrier that is missing or counts short. Why running harder does not show it: the blocks of a
cluster start together and the warps of a block run in step, so that what is not waited for is nearly always there already. A
delay in the one that writes opens the window for good. 100 us (``LONG``) is some 50 times what the whole kernel takes, and a
hundred times the steps of the GPU's clock (``%globaltimer``, about 1 us); CCCL and FlashInfer place 100 and 200 us likewise
(CCCL pull 5249, FlashInfer tests/comm/test_pcie_ipc_cross_island_race.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from validate.paths.vllm.edits import Change
from validate.paths.vllm.entries import FRONT, MLA_QUERY, MLA_VALUE
from validate.races.gpu.faults import ATTN_RES, KDA, PRODUCER

LONG = 100_000  # ns
IMPORT = "import cutlass.cute as cute\n"
WITH_SPIN = IMPORT + "from validate.races.gpu.device.words import spin\n"


@dataclass(frozen=True)
class Stall:
    """``says``: who is held up, and where."""

    says: str
    change: Change


def _before(says: str, file: str, who: str, line: str) -> Stall:
    """Holds up those for whom the condition ``who`` holds, before the line."""
    indent = line[: len(line) - len(line.lstrip())]
    held = f"{indent}if {who}:\n{indent}    spin({LONG})\n{line}"
    return Stall(says, Change(file, {IMPORT: WITH_SPIN, line: held}))


STALLS: Mapping[str, Stall] = {
    "attn_res-start": _before(
        "the cluster's fourth block, before it initialises its barriers",
        ATTN_RES,
        "rank == 3",
        "        bufs = self.setup(cutlass.utils.SmemAllocator())",
    ),
    "attn_res-send": _before(
        "the cluster's fourth block, before it sends its sums",
        ATTN_RES,
        "rank == 3",
        "        reduced, index = scatter_reduce(values, lane, kpad)",
    ),
    "attn_res-warp": _before(
        "the third warp, before it stores its sums",
        ATTN_RES,
        "warp == 2",
        "        if (lane & (32 // kpad - 1)) == 0 and index < count:",
    ),
    "route-warp": _before("the sixth warp, before it stores its maxima", FRONT, "warp == 5", "        km[warp, lane] = top"),
    "kda-start": _before(
        "the cluster's second block, before it initialises its barriers",
        KDA,
        "partition == 1",
        "        if cutlass.const_expr(T == 1):\n            slot = slots[token]",
    ),
    "kda-decays": _before(
        "the second block's gate warp, before it computes its decays",
        KDA,
        "value_base == self.rows",
        "        rows, mode = self.rows, self.gate_mode",
    ),
    "kda-outputs": _before(
        "the second block's main warps, before they send their outputs",
        KDA,
        "partition == 1",
        "                ready = operands(0)",
    ),
    "kda-warp": _before(
        "the third warp, before it stores its squares",
        KDA,
        "warp == 2",
        "                    squares += [warp_sum(q * q), warp_sum(k * k)]",
    ),
    "query-start": _before(
        "the cluster's second block, before it initialises its barriers",
        MLA_QUERY,
        "part == 1",
        "        if tid == 0:\n            if cutlass.const_expr(not self.q_b_cp_async):",
    ),
    "query-send": _before(
        "the cluster's second block, before it sends its rows",
        MLA_QUERY,
        "part == 1",
        "        nrows = min(R, max(0, 128 - R * part))",
    ),
    "value-warp": _before(
        "the third warp, before it copies its part of the rows",
        MLA_VALUE,
        "warp == 2",
        "        for c in range(tid, 16 * 64, 128):",
    ),
    "producer-warp": _before(
        "the fourth warp, before it stores its part",
        PRODUCER,
        "warp == 3",
        "            self.store_partials(red, acc, min(GT, NT - g * GT))",
    ),
}
