"""Registers, stack, shared memory and launch of a compiled kernel: from its cubin and from the host code around it.

A cubin is an ELF file. NVIDIA's ``.nv.info`` section is a list of attributes; cuobjdump -res-usage prints the same figures.
The stack holds what registers were spilled to it, and arrays in local memory, which PTX shows (``st.local``): without those,
all of it is spills.
"""

import re
import struct

# Attributes of .nv.info (cuobjdump -elf prints these names): EIATTR_REGCOUNT, EIATTR_FRAME_SIZE.
REGISTERS, STACK = 0x2F, 0x11
SIZED = 4  # EIFMT_SVAL: the attribute is followed by as many bytes as its header says
# Of CUlaunchAttributeID (CUDA's driver_types.h): the ones that vLLM's launches set.
CLUSTER, PROGRAMMATIC, MAPPING = 4, 6, {2: "cooperative", 8: "priority", 14: "shared memory carveout"}
_CONFIG = re.escape("!llvm.struct<(array<3 x i32>, array<3 x i32>, i64, ptr, ptr, i32)>")
_ATTRIBUTE = re.escape("!llvm.struct<(i32, array<4 x i8>, array<64 x i8>)>")


def resources(cubin: bytes, host: str) -> dict[str, object]:
    """Figures by name. ``host`` is the compiled module of the launching function, as MLIR text."""
    sections = _sections(cubin)
    static = sum(size for name, _, size in sections if name.startswith(".nv.shared.") and "reserved" not in name)
    return {
        "registers": _attribute(cubin, sections, REGISTERS),
        "stack bytes": _attribute(cubin, sections, STACK),
        "static shared bytes": static,
        **_launch(host),
    }


def _sections(cubin: bytes) -> list[tuple[str, int, int]]:
    """Name, offset and size in the file of each section."""
    if cubin[:5] != b"\x7fELF\x02":
        raise ValueError("the cubin is no 64-bit ELF file")
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    entry, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", cubin, table + n * entry) for n in range(count)]
    strings = headers[names][4]

    def name(offset: int) -> str:
        start = strings + offset
        return cubin[start : cubin.index(b"\0", start)].decode()

    return [(name(header[0]), header[4], header[5]) for header in headers]


def _attribute(cubin: bytes, sections: list[tuple[str, int, int]], wanted: int) -> int | None:
    """The largest value of an attribute of the kernels; None if it is not there."""
    found = []
    for _, offset, size in (section for section in sections if section[0] == ".nv.info"):
        at, end = offset, offset + size
        while at < end:
            form, attribute, length = struct.unpack_from("<BBH", cubin, at)
            if form == SIZED and attribute == wanted:
                found.append(struct.unpack_from("<II", cubin, at + 4)[1])
            at += 4 + (length if form == SIZED else 0)
    return max(found, default=None)


def _launch(host: str) -> dict[str, object]:
    """The launch configuration that the host code stores before it calls cudaLaunchKernelEx."""
    body = next((part for part in host.split("llvm.func @") if "_cudaLaunchKernelEx(%" in part), "")
    constants = dict(re.findall(r"(%\d+) = llvm\.mlir\.constant\((\d+) : i\d+\)", body))

    def stored(pointer: str) -> str:
        match = re.search(rf"llvm\.store (%\w+), {pointer} :", body)
        return constants.get(match[1], "set at run time") if match else "not set"

    shared = re.search(rf"(%\d+) = llvm\.getelementptr %\d+\[0, 2\] :.*{_CONFIG}", body)
    facts: dict[str, object] = {"dynamic shared bytes": _number(stored(shared[1]) if shared else "not set")}
    for base, pointer in re.findall(
        rf"(%\d+) = llvm\.getelementptr .*\n.*(%\d+) = llvm\.getelementptr \1\[0, 0\] :.*{_ATTRIBUTE}", body
    ):
        kind = constants.get(next(iter(re.findall(rf"llvm\.store (%\d+), {pointer} :", body)), ""))
        value = re.search(rf"(%\d+) = llvm\.getelementptr {base}\[0, 2\] :", body)
        if kind is None or value is None:
            continue
        if int(kind) == CLUSTER:
            sides = re.findall(rf"(%\d+) = llvm\.getelementptr {value[1]}\[0, \d\] :", body)
            facts["cluster"] = "x".join(stored(side) for side in sides)
        elif int(kind) == PROGRAMMATIC:
            facts["programmatic launch"] = stored(value[1])
        elif int(kind) in MAPPING:
            facts[MAPPING[int(kind)]] = stored(value[1])
    return facts


def _number(text: str) -> int | str:
    return int(text) if text.isdigit() else text
