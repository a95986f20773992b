"""Reads a kernel's PTX: the instructions that correctness hangs on, and what can run before the grid-dependency wait.

The reader knows as much of the language as it needs: statements, labels, branches, predicates, registers that are set
once. It follows control flow without evaluating conditions, so "can be reached" means on some path. Registers are
followed through 64-bit arithmetic, so an address is known by the kernel parameters that it was made from, not by value.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

# Instructions that are counted. Waits and releases of the grid, stores and loads with a scope or an order, fences,
# barriers, atomics, matrix instructions, what narrows a number, approximations, and arrays in local memory.
COUNTED = re.compile(
    r"griddepcontrol\.|fence\.|membar|multimem\.|red\.|atom\.|mbarrier\.|barrier\.|bar\.|tcgen05\.|wgmma|mma\.|redux\.|nanosleep"
    r"|st\.(global|relaxed|release|volatile|async|weak)|ld\.(volatile|relaxed|acquire|global)"
    r"|(st|ld)\.local|cp\.(async|reduce)|\w+\.(rn\.)?f32x2|cvt\.rn\.(bf16|f16|satfinite|relu)|cvt\.rz\."
    r"|\w+\.(approx|rn\.bf16|rn\.f16|f16|bf16|ftz)"
)
# Those whose order matters, too.
ORDERED = re.compile(
    r"griddepcontrol\.|fence\.|membar|multimem\.|red\.|atom\.|mbarrier\.|barrier\.|bar\.|st\.(relaxed|release|async|volatile)"
    r"|ld\.(volatile|relaxed|acquire)|tcgen05\.(fence|wait|commit|alloc|dealloc)|cp\.async\.(wait|commit|bulk)"
)
WAIT, RELEASE = "griddepcontrol.wait", "griddepcontrol.launch_dependents"
READ = re.compile(r"ld\.\S*global|ld\.(relaxed|acquire|volatile)\.\w+\.global|cp\.async\S*\.global|multimem\.ld|atom\.\S*global")
WRITE = re.compile(r"st\.\S*global|multimem\.(st|red)|red\.\S*global|atom\.\S*global|cp\.async\.bulk\S*\.global\.shared")
ORDER, DEPENDENCY = "order of synchronization", "grid dependency"
EXITS, READS, WRITES, RELEASES = (
    "exit without a wait",
    "reads before the wait",
    "writes before the wait",
    "release before the wait",
)
OF_THE_WAIT = (EXITS, READS, WRITES, RELEASES)  # facts that a kernel without a wait has not
SENTINELS = {0x80000000: "0x80000000", 0xFFFFFFFF: "0xffffffff"}  # common/mailbox.py; mla/dcp.py and moe/small_batch
STORED = SENTINELS | {0: "zero"}  # counters are reset to it
_STATEMENT = re.compile(r"\s*(?:@(!?[%\w]+)\s+)?([a-z][\w.:]*)\s*(.*)", re.DOTALL)
_LABEL = re.compile(r"\s*([$\w]+):(?!:)")
_REGISTER = re.compile(r"%\w+|\b[a-z]\w*\b")
_ADDRESS = re.compile(r"\[([^\]]*)\]")


@dataclass(frozen=True)
class Statement:
    """One instruction: its operation with all qualifiers, its operands as text, whether a predicate guards it.

    ``scope`` are the blocks that it stands in, outermost first: inline assembly uses the same label in many blocks.
    """

    operation: str
    operands: str
    guarded: bool = False
    scope: tuple[int, ...] = ()


@dataclass
class Kernel:
    """The statements of one entry, and where its labels are."""

    statements: list[Statement] = field(default_factory=list)
    labels: dict[tuple[tuple[int, ...], str], int] = field(default_factory=dict)  # by block and name
    threads: str = ""  # .reqntid, .maxntid and the like, as they stand

    @cached_property
    def constants(self) -> dict[str, int]:
        """Registers that are set exactly once, to a number, as 32-bit patterns."""
        found: dict[str, int] = {}
        seen: set[str] = set()
        for statement in self.statements:
            number = re.fullmatch(r"[^,]+,\s*(-?\d+|0[xX][0-9a-fA-F]+)", statement.operands)
            for target in _targets(statement):
                if target not in seen and number and re.match(r"mov\.[bus]32", statement.operation):
                    found[target] = int(number[1], 0) & 0xFFFFFFFF
                else:
                    found.pop(target, None)
                seen.add(target)
        return found

    @cached_property
    def origins(self) -> dict[str, frozenset[str]]:
        """The kernel parameters that each 64-bit register is made from; "*p3": from a value read through parameter 3."""
        made: dict[str, list[Statement]] = {}
        for statement in self.statements:
            for target in _targets(statement):
                if target.startswith("%rd") or re.search(r"\.(b64|u64|s64)\b", statement.operation):
                    made.setdefault(target, []).append(statement)
        known: dict[str, frozenset[str]] = {}
        changed = True
        while changed:
            changed = False
            for target, statements in made.items():
                before = known.get(target, frozenset())
                now = before.union(*(self._origin(statement, known) for statement in statements))
                if now != before:
                    known[target], changed = now, True
        return known

    def reachable(self, start: int = 0, stop: str | None = None) -> set[int]:
        """The statements that can be reached from one, itself included, without passing an operation ``stop``."""
        found: set[int] = set()
        ahead = [start]
        while ahead:
            here = ahead.pop()
            if here in found or here >= len(self.statements):
                continue
            found.add(here)
            statement = self.statements[here]
            if statement.operation == stop and not statement.guarded:
                continue
            branches = statement.operation in ("bra", "bra.uni")
            if branches:
                ahead.append(self._labelled(statement))
            ends = branches or statement.operation in ("ret", "exit", "trap")
            if statement.guarded or not ends:
                ahead.append(here + 1)
        return found

    def address(self, statement: Statement) -> frozenset[str]:
        """The parameters from which the statement's first address in global memory is made; empty if it is not known."""
        registers = [r for part in _ADDRESS.findall(statement.operands) for r in _REGISTER.findall(part)]
        return frozenset().union(*(self.origins.get(register, frozenset()) for register in registers))

    def _labelled(self, branch: Statement) -> int:
        for depth in range(len(branch.scope), -1, -1):
            place = self.labels.get((branch.scope[:depth], branch.operands))
            if place is not None:
                return place
        raise ValueError(f"the PTX branches to {branch.operands}, which is nowhere")

    def _origin(self, statement: Statement, known: dict[str, frozenset[str]]) -> frozenset[str]:
        if statement.operation.startswith(("ld.param", "cvta.param")) or "_param_" in statement.operands:
            return frozenset(f"p{n}" for n in re.findall(r"_param_(\d+)", statement.operands))
        sources = _REGISTER.findall(statement.operands.partition(",")[2])
        origins = frozenset().union(*(known.get(source, frozenset()) for source in sources))
        if statement.operation.startswith(("ld.", "atom.")):
            return frozenset(f"*{origin.lstrip('*')}" for origin in origins)
        return origins


def parse(text: str) -> Kernel:
    """The first kernel of a PTX module."""
    kernel = Kernel()
    text = re.sub(r"//[^\n]*", "", text)
    _, _, body = text.partition(".entry")
    head, _, body = body.partition("{")
    kernel.threads = " ".join(re.findall(r"\.(?:reqntid|maxntid|minnctapersm|maxnreg|reqnctapercluster)[^\n.]*", head))
    scope: list[int] = []
    for number, piece in enumerate(_pieces(body)):
        if piece == "{":
            scope.append(number)
        elif piece == "}":
            if not scope:
                break  # the end of the entry
            scope.pop()
        while label := _LABEL.match(piece):
            kernel.labels[tuple(scope), label[1]] = len(kernel.statements)
            piece = piece[label.end() :]
        match = _STATEMENT.fullmatch(piece.strip())
        if match:
            operands = " ".join(match[3].split())
            kernel.statements.append(Statement(match[2], operands, match[1] is not None, tuple(scope)))
    return kernel


def fingerprint(text: str) -> dict[str, object]:
    """What a later compilation is compared with: counts of instructions, and facts about order.

    Keys of counts are operations; of facts, sentences. Values are numbers or short texts. Modules of vLLM's hold one kernel;
    of others, the keys say which kernel they are of from the second on.
    """
    first, *others = re.split(r"(?=\.entry\b)", text)[1:] or [text]
    found = _fingerprint(parse(first))
    for number, other in enumerate(others, 2):
        found |= {f"{key}, kernel {number}": value for key, value in _fingerprint(parse(other)).items()}
    return found


def _fingerprint(kernel: Kernel) -> dict[str, object]:
    counts: dict[str, int] = {}
    for statement in kernel.statements:
        for key in _keys(kernel, statement):
            counts[key] = counts.get(key, 0) + 1
    return dict(sorted(counts.items())) | _facts(kernel)


def _facts(kernel: Kernel) -> dict[str, object]:
    statements = kernel.statements
    ordered = " ".join(s.operation for s in statements if ORDERED.match(s.operation))
    facts: dict[str, object] = {"threads": kernel.threads, ORDER: hashlib.sha256(ordered.encode()).hexdigest()[:8]}
    early = kernel.reachable(stop=WAIT)
    released = [n for n, s in enumerate(statements) if s.operation == RELEASE]
    if any(s.operation == WAIT for s in statements):
        exits = any(statements[n].operation in ("ret", "exit") for n in early)
        facts[DEPENDENCY] = "waited for"
        facts[EXITS] = "on some path" if exits else "no"
        facts[READS] = _through(kernel, (n for n in early if READ.match(statements[n].operation)))
        facts[WRITES] = _through(kernel, (n for n in early if WRITE.match(statements[n].operation)))
        if released:
            facts[RELEASES] = "on some path" if any(n in early for n in released) else "no"
    else:
        facts[DEPENDENCY] = "released, never waited for" if released else "none"
    if released:
        after = set().union(*(kernel.reachable(n) for n in released))
        facts["writes after a release"] = _through(kernel, (n for n in after if WRITE.match(statements[n].operation)))
    return facts


def _keys(kernel: Kernel, statement: Statement) -> Iterator[str]:
    operation = statement.operation
    if operation.startswith("tcgen05.mma."):
        yield f"{operation} accumulating {_accumulator(kernel, statement)}"
    elif operation.startswith(("mbarrier.init", "mbarrier.arrive.expect_tx")):
        awaited = _value(kernel, statement.operands.rpartition(",")[2].strip())
        yield f"{operation} of {'a variable' if awaited is None else awaited}"  # arrivals, or bytes
    elif COUNTED.match(operation):
        yield operation
    if WRITE.match(operation):
        sentinel = _stored(kernel, statement)
        if sentinel:
            yield f"{operation} of {sentinel}"
    if operation.startswith("setp."):
        last = statement.operands.rpartition(",")[2].strip()
        value = _value(kernel, last)
        if value in SENTINELS and operation.startswith(("setp.eq", "setp.ne")):
            yield f"compare with {SENTINELS[value]}"


def _accumulator(kernel: Kernel, statement: Statement) -> str:
    """By the instruction descriptor, bits 4 and 5 (PTX ISA, tcgen05 instruction descriptor); mx kinds accumulate f32."""
    if "block_scale" in statement.operation or "mxf" in statement.operation:
        return "f32"
    value = _value(kernel, statement.operands.split(",")[3].strip())
    return {0: "f16", 1: "f32"}.get((value >> 4) & 3, "unknown") if value is not None else "unknown"


def _stored(kernel: Kernel, statement: Statement) -> str | None:
    """The sentinel or zero, if that is all that the statement stores."""
    stored = statement.operands.partition("]")[2]
    values = {_value(kernel, word) for word in re.findall(r"[%\w.-]+", stored)}
    return STORED.get(value) if len(values) == 1 and (value := values.pop()) is not None else None


def _value(kernel: Kernel, word: str) -> int | None:
    if re.fullmatch(r"-?\d+|0[xX][0-9a-fA-F]+", word):
        return int(word, 0) & 0xFFFFFFFF
    return kernel.constants.get(word)


def _through(kernel: Kernel, numbers: Iterable[int]) -> str:
    found: set[str] = set()
    for number in numbers:
        found |= kernel.address(kernel.statements[number]) or {"unknown"}
    return " ".join(sorted(found, key=lambda name: (name.lstrip("*p").rjust(4), name))) or "none"


def _targets(statement: Statement) -> list[str]:
    """The registers that a statement sets."""
    if statement.operation.startswith(("st.", "bra", "red.", "bar", "fence", "griddep", "multimem.st")):
        return []
    first = re.match(r"\{([^}]*)\}|[%\w|]+", statement.operands)
    return _REGISTER.findall(first[0]) if first else []


def _pieces(body: str) -> Iterator[str]:
    """Statements as text, and the braces of blocks. Braces among operands hold a vector and are part of the statement."""
    piece = ""
    vector = False
    for part in re.split(r"([;{}])", body):
        if part in ("{", "}") and (vector or (part == "{" and piece.strip() and not _LABEL.fullmatch(piece.rstrip()))):
            vector, piece = part == "{", piece + part
        elif part in (";", "{", "}"):
            if piece.strip():
                yield piece
            piece = ""
            if part != ";":
                yield part
        else:
            piece += part
