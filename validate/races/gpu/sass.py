"""The instructions of a compiled kernel, by nvdisasm; and which of racecheck's and synccheck's reports on them are no fault.

racecheck knows mbarriers in part. Of ``mbarrier.init`` and ``mbarrier.arrive.expect_tx`` by one thread, one after the other, it
warns in every kernel of vLLM's that has them (0.33.0, ``arm_exchanges`` in cutedsl/attn_res, ``setup`` in cutedsl/kda): eight
hazards, the barrier's bytes, a thread block. In SASS the first is ``SYNCS.EXCH.64``, an instruction of the warp's uniform
datapath under a vote, the second ``SYNCS.ARRIVE.TRANS64``, the one thread's. They are of one warp, in program order, on one word
of the warp's own block; other threads use the barrier after the cluster's or the block's barrier. So no order is missing.

synccheck misses a wait before an arrival at such a barrier where clusters have 16 blocks and do not all fit at once (MlaQuery of
2 rows at TP 16). At a barrier that the same thread has just initialised it is the first arrival: there is nothing to wait for. It
says so of blocks 8 and 9 of clusters, at each run of others; and also of a kernel in which each of 16 blocks initialises a
barrier, arrives, takes a word from every block and waits (2025.3.1, H200: 9 reports of 12 clusters, 27 to 36 of 40; none where
clusters have 8).
"""

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from validate.races.gpu.record import Report

Code = Mapping[str, Mapping[int, str]]  # by a kernel's name and an offset in bytes
FIRST = "the thread has just initialised this mbarrier: it is the first arrival, before which there is no wait"
ARMED = "a thread initialises an mbarrier and arrives at it next: one warp, in program order"
_SECTION = re.compile(r"\.text\.(\w+):")
_INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]+)\*/\s+(.*?)\s*;")
_INITIALISES = re.compile(r"SYNCS\.EXCH\.64 URZ, (\[.+?\])")
_ARRIVES = re.compile(r"SYNCS\.ARRIVE\.TRANS64 RZ, (\[.+?\])")
_LEAVES = re.compile(r"\b(BRA|BRX|JMP|CALL|RET|EXIT|BAR|UCGABAR_ARV|UCGABAR_WAIT|WARPSYNC)\b")  # the straight line


def program() -> str | None:
    """Where nvdisasm is: a part of the CUDA toolkit, and of Triton. None if it is not there."""
    found = shutil.which("nvdisasm")
    triton = importlib.util.find_spec("triton")
    if found is None and triton is not None and triton.origin is not None:
        beside = Path(triton.origin).parent / "backends/nvidia/bin/nvdisasm"
        found = str(beside) if beside.is_file() else None
    return found


def read(cubins: Path) -> Code:
    """The kernels in a folder of cubins; none where nvdisasm is not there, or reads one not."""
    found = program()
    code: dict[str, Mapping[int, str]] = {}
    for cubin in sorted(cubins.rglob("*.cubin")) if found is not None else []:
        done = subprocess.run([str(found), "-c", str(cubin)], capture_output=True, text=True, timeout=60)
        code |= parsed(done.stdout)
    return code


def parsed(text: str) -> Code:
    """What nvdisasm prints: a section a kernel, an instruction a line."""
    code: dict[str, dict[int, str]] = {}
    kernel: dict[int, str] = {}
    for line in text.splitlines():
        if section := _SECTION.match(line):
            kernel = code.setdefault(section[1], {})
        elif instruction := _INSTRUCTION.match(line):
            kernel[int(instruction[1], 16)] = instruction[2]
    return code


def explained(report: Report, code: Code) -> Report:
    """The report with the instructions at its places, and with why it is no race where that is known."""
    instructions = code.get(report.kernel, {})
    offsets = [int(place, 16) for place in report.places]
    if not offsets or any(offset not in instructions for offset in offsets):
        return report
    places = tuple(f"+{offset:#x} {instructions[offset]}" for offset in offsets)
    why = None
    if len(offsets) == 2 and report.severity == "warning":
        why = ARMED if _arms(instructions, *offsets) else None
    elif "Missing wait" in report.text:
        why = FIRST if any(_arms_first(instructions, before, offsets[0]) for before in instructions) else None
    return report.model_copy(update={"places": places, "explained": why})


def _arms(instructions: Mapping[int, str], first: int, second: int) -> bool:
    initialises, arrives = _INITIALISES.search(instructions[first]), _ARRIVES.search(instructions[second])
    between = [text for offset, text in instructions.items() if first < offset < second]
    straight = first < second and not any(map(_LEAVES.search, between))
    return straight and initialises is not None and arrives is not None and initialises[1] == arrives[1]


def _arms_first(instructions: Mapping[int, str], first: int, second: int) -> bool:
    """Whether no other arrival at the barrier comes between."""
    arrives = _ARRIVES.search(instructions[second])
    between = (_ARRIVES.search(text) for offset, text in instructions.items() if first < offset < second)
    return _arms(instructions, first, second) and all(not other or other[1] != arrives[1] for other in between if arrives)
