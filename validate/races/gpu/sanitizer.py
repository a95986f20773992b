"""compute-sanitizer over vLLM's kernels: its commands, and its reports as they are printed.

racecheck looks at shared memory, memcheck and initcheck at global memory, too, synccheck at barriers (NVIDIA's Compute Sanitizer
manual). None knows of stores of other ranks, and a kernel under them is too slow to race: the trials are for that.
"""

import itertools
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from validate import keywords
from validate.errors import InputError
from validate.races.gpu import children, sass
from validate.races.gpu.launched import Order
from validate.races.gpu.record import Asked, Report, Sanitized

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
OURS = "kernel_cutlass"  # how the name of every CuTe DSL kernel begins
# Seconds: a kernel under racecheck takes some hundred times its time, which is microseconds; the rest is starting.
DEADLINE = 240.0
# Small cases of every kernel; and for each tool a copy that it must find fault with.
CASES: tuple[tuple[str, dict[str, int]], ...] = (
    ("attn_res", {"slots": 8, "rows": 2}),
    ("kda", {"tp": 16, "rows": 4}),
    ("kda", {"tp": 8, "rows": 32}),
    ("mla_query", {"tp": 16, "rows": 2}),
    ("route", {"rows": 16}),
    ("o_proj", {"tp": 8, "rows": 4}),
    ("mla_value", {"tp": 16, "rows": 8, "q": 4}),
    ("attn_res", {"slots": 0, "rows": 2, "final": 1}),
    ("kda", {"tp": 16, "rows": 8, "q": 4}),
    ("situ", {"rows": 4}),
    ("embedding", {"rows": 4}),
)
CONTROLS = (
    ("memcheck", "attn_res", {"slots": 8, "rows": 2, "write": 7}, "block-beyond"),
    ("racecheck", "kda", {"tp": 16, "rows": 4}, "kda-norms"),
    ("synccheck", "mla_value", {"tp": 16, "rows": 8, "q": 4}, "value-lanes"),
    ("initcheck", "kda", {"tp": 16, "rows": 4}, "kda-next-slot"),
)
# racecheck does not come back from these (2025.3.1). Where KDA loads early, or verifies, its gate warps wait for the cluster
# before they send the decays; the main warps wait for the decays, and then for the cluster. All have arrived at the cluster's
# barrier by then. But racecheck lets no warp past that wait before all are at it, as its deadlock detection shows, also in a
# kernel that has nothing but that.
ENDLESS = (
    ("racecheck", "kda", {"tp": 8, "rows": 32}),
    ("racecheck", "kda", {"tp": 16, "rows": 8, "q": 4}),
)
# Bytes after each allocation that are nobody's, for memcheck: a saved block's, 7168 bf16. Allocations lie side by side, so that a
# write right behind one would be another's.
PADDING = 14336
Finding = tuple[str, str, str, tuple[str, ...]]  # severity, text, kernel, places
MOST = 1000  # reports that a tool prints; initcheck's are also on torch's kernels
SAID = 3000  # characters of an output that are recorded
_PREFIX = "========= "
_SUMMARY = re.compile(r"=+ (?:ERROR|RACECHECK) SUMMARY: ")
_RACE = re.compile(r"(Error|Warning): (Race reported .*)")
_ACCESS = re.compile(rf"Race reported between (\w+) access at ({OURS}\w*)\+(0x[0-9a-f]+)")
_OTHER = re.compile(rf"and (\w+) access at {OURS}\w*\+(0x[0-9a-f]+)")
_BARRIER = "Barrier error detected"
_AT = re.compile(rf"at {OURS}\w*\+(0x[0-9a-f]+)")
_FINDINGS = ("Invalid ", "Uninitialized ", _BARRIER, "Misaligned ", "Out-of-range", "Leaked ")
_UNABLE = ("Device not supported", "Internal Sanitizer Error", "No attachable process")


def found() -> str:
    """Where the program is. InputError if it is not installed."""
    program = shutil.which("compute-sanitizer")
    if program is None:
        raise InputError("--sanitize needs compute-sanitizer, a part of the CUDA toolkit, and there is none on the PATH")
    return program


def sessions(keyword: str | None) -> list[Sanitized]:
    """The sessions, the controls first, without results. ``keyword`` as of the trials. InputError if it selects none."""
    controls = [Sanitized(tool=tool, kernel=kernel, sizes=sizes, fault=fault) for tool, kernel, sizes, fault in CONTROLS]
    sound = [
        Sanitized(tool=tool, kernel=kernel, sizes=sizes)
        for kernel, sizes in CASES
        for tool in TOOLS
        if (tool, kernel, sizes) not in ENDLESS
    ]
    every = controls + sound
    found = [one for one in every if keyword in (None, one.name) or keywords.matches(keyword or "", one.name)]
    if not found:
        raise InputError(f"-k '{keyword}' selects none of the sessions: their names are as '{sound[0].name}'")
    return found


def command(program: str, name_filter: str, tool: str, order: Path) -> list[str]:
    """A session. initcheck is not confined to vLLM's kernels, since it must see who writes what they read."""
    confined = [] if tool == "initcheck" else [name_filter, f"kns={OURS}"]
    padded = ["--padding", str(PADDING)] if tool == "memcheck" else []
    return [
        program,
        "--tool",
        tool,
        *confined,
        *padded,
        "--print-limit",
        str(MOST),
        sys.executable,
        "-m",
        "validate.races.gpu.launched",
        str(order),
    ]


def name_filter(program: str) -> str:
    """The option that confines the checks to kernels by their name: it has been called both."""
    said = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=60).stdout
    return "--kernel-regex" if "--kernel-regex" in said else "--kernel-name"


def sanitized(one: Sanitized, asked: Asked, program: str, named: str, scratch: Path, number: int) -> Sanitized:
    """A session's reports."""
    order, log = scratch / f"s{number}.json", scratch / f"s{number}.log"
    wanted = Order(
        kernel=one.kernel, sizes=one.sizes, fault=one.fault, vllm_src=asked.vllm_src, copies=str(scratch / f"s{number}.copies")
    )
    order.write_text(wanted.model_dump_json(), encoding="utf-8")
    # Each tensor its own allocation, so that what lies beyond it is nobody's; and only what is launched is loaded and patched.
    environment = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "CUDA_MODULE_LOADING": "LAZY"}
    cubins = scratch / f"s{number}.cubins"
    cubins.mkdir()
    environment |= {"CUTE_DSL_KEEP_CUBIN": "1", "CUTE_DSL_DUMP_DIR": str(cubins)}
    start = time.monotonic()
    said = children.ended(command(program, named, one.tool, order), log, DEADLINE, environment)
    text = log.read_text(encoding="utf-8", errors="replace")
    reports, lost = parsed(text)
    if lost is None and not reports and "launched" not in text.splitlines():
        lost = f"the kernel was not launched to its end: {said}"
    if any(report.places for report in reports):
        code = sass.read(cubins)
        reports = tuple(sass.explained(report, code) for report in reports)
    if lost is None and _printed(text) >= MOST and all(report.explained for report in reports):
        lost = f"it printed {MOST} reports, none of which counts, and may have left others out"
    head = text[:SAID] if reports or lost else ""
    update = {
        "reports": reports,
        "said": head,
        "lost": lost and f"{lost} ({said})",
        "seconds": round(time.monotonic() - start, 1),
    }
    return one.model_copy(update=update)


def parsed(text: str) -> tuple[tuple[Report, ...], str | None]:
    """The reports on vLLM's kernels in a tool's output, equal ones counted; and why the output is no result, or None.

    A report is a line that says what, then lines that say where. Reports on other kernels, and on calls of the driver that
    were refused, are left out.
    """
    lines = [line.removeprefix(_PREFIX).strip() for line in text.splitlines() if line.startswith(_PREFIX.rstrip())]
    unable = next((line for line in lines if any(mark in line for mark in _UNABLE)), None)
    if unable is not None:
        return (), unable
    counts: Counter[Finding] = Counter()
    for number, line in enumerate(lines):
        race = _RACE.match(line)
        if race is not None:
            counts.update(_races(race[1].lower(), race[2], lines[number + 1 :]))
        elif line.startswith(_FINDINGS):
            kernel = next((name for place in lines[number + 1 : number + 4] if (name := _kernel(place))), None)
            place = _AT.match(lines[number + 1]) if line.startswith(_BARRIER) and number + 1 < len(lines) else None
            if kernel is not None:
                counts["error", line, kernel, (place[1],) if place else ()] += 1
    reports = tuple(
        Report.model_validate({"severity": severity, "text": what, "kernel": kernel, "count": count, "places": places})
        for (severity, what, kernel, places), count in counts.items()
    )
    if not any(_SUMMARY.match(line) for line in text.splitlines()) and not reports:
        return (), "it ended without a summary"
    return reports, None


def _printed(text: str) -> int:
    """How many reports there are in a tool's output, on whatever kernel."""
    lines = (line.removeprefix(_PREFIX).strip() for line in text.splitlines() if line.startswith(_PREFIX))
    return sum(line.startswith(_FINDINGS) or _RACE.match(line) is not None for line in lines)


def _races(severity: str, line: str, after: Sequence[str]) -> list[Finding]:
    """One for each access that the line's races with; those are on the lines after it."""
    rest = list(itertools.takewhile(lambda line: line.startswith("and "), after))
    first, others = _ACCESS.match(line), [other for other in map(_OTHER.match, rest) if other]
    if first is None or len(others) < max(1, len(rest)):  # worded otherwise: as it stands
        kernel = _kernel(" ".join([line, *rest]))
        return [] if kernel is None else [(severity, line, kernel, ())]
    what = f"race between a {first[1].lower()} and a {{}} access"
    return [(severity, what.format(other[1].lower()), first[2], (first[3], other[2])) for other in others]


def _kernel(line: str) -> str | None:
    """The name of one of vLLM's kernels in a line."""
    named = re.search(rf"\b{OURS}\w*", line)
    return named[0] if named else None
