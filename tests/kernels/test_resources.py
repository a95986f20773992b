"""Registers and launches, from a small ELF file and from host code as the compiler writes it."""

import struct

import pytest

from validate.kernels.resources import resources

CONFIG = "!llvm.struct<(array<3 x i32>, array<3 x i32>, i64, ptr, ptr, i32)>"
ATTRIBUTE = "!llvm.struct<(i32, array<4 x i8>, array<64 x i8>)>"
HOST = """
  llvm.func @entry(%arg0: !llvm.ptr) -> i32 {
    %0 = llvm.mlir.constant(4 : i32) : i32
    %1 = llvm.mlir.constant(6 : i32) : i32
    %2 = llvm.mlir.constant(7 : i32) : i32
    %3 = llvm.mlir.constant(1 : i32) : i32
    %4 = llvm.mlir.constant(35936 : i64) : i64
    %8 = llvm.getelementptr %7[0, 2] : (!llvm.ptr) -> !llvm.ptr, CONFIG
    llvm.store %4, %8 : i64, !llvm.ptr
    %10 = llvm.getelementptr %9[%30] : (!llvm.ptr, i32) -> !llvm.ptr, ATTRIBUTE
    %11 = llvm.getelementptr %10[0, 0] : (!llvm.ptr) -> !llvm.ptr, ATTRIBUTE
    llvm.store %1, %11 : i32, !llvm.ptr
    %12 = llvm.getelementptr %10[0, 2] : (!llvm.ptr) -> !llvm.ptr, ATTRIBUTE
    llvm.store %3, %12 : i32, !llvm.ptr
    %13 = llvm.getelementptr %9[%31] : (!llvm.ptr, i32) -> !llvm.ptr, ATTRIBUTE
    %14 = llvm.getelementptr %13[0, 0] : (!llvm.ptr) -> !llvm.ptr, ATTRIBUTE
    llvm.store %0, %14 : i32, !llvm.ptr
    %15 = llvm.getelementptr %13[0, 2] : (!llvm.ptr) -> !llvm.ptr, ATTRIBUTE
    %16 = llvm.getelementptr %15[0, 0] : (!llvm.ptr) -> !llvm.ptr, !llvm.struct<(i32, i32, i32)>
    llvm.store %2, %16 : i32, !llvm.ptr
    %17 = llvm.getelementptr %15[0, 1] : (!llvm.ptr) -> !llvm.ptr, !llvm.struct<(i32, i32, i32)>
    llvm.store %3, %17 : i32, !llvm.ptr
    %18 = llvm.getelementptr %15[0, 2] : (!llvm.ptr) -> !llvm.ptr, !llvm.struct<(i32, i32, i32)>
    llvm.store %3, %18 : i32, !llvm.ptr
    %20 = llvm.call @_cudaLaunchKernelEx(%7, %6, %5) : (!llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
""".replace("CONFIG", CONFIG).replace("ATTRIBUTE", ATTRIBUTE)


def elf(sections: dict[str, bytes]) -> bytes:
    """A 64-bit ELF file of these sections, and of the table of their names."""
    names, offsets = b"\0", {}
    for name in [*sections, ".shstrtab"]:
        offsets[name] = len(names)
        names += name.encode() + b"\0"
    body, headers = b"", [bytes(64)]
    for name, content in {**sections, ".shstrtab": names}.items():
        headers.append(struct.pack("<IIQQQQ", offsets[name], 1, 0, 0, 64 + len(body), len(content)).ljust(64, b"\0"))
        body += content
    head = bytearray(64)
    head[:5] = b"\x7fELF\x02"
    struct.pack_into("<Q", head, 0x28, 64 + len(body))
    struct.pack_into("<HHH", head, 0x3A, 64, len(headers), len(headers) - 1)
    return bytes(head) + body + b"".join(headers)


def attribute(number: int, value: int) -> bytes:
    return struct.pack("<BBHII", 4, number, 8, 6, value)


def test_registers_stack_and_shared_memory() -> None:
    short = struct.pack("<BBH", 3, 0x1B, 255)  # an attribute that is only a header
    info = attribute(0x12, 8) + short + attribute(0x2F, 80) + attribute(0x11, 16)
    found = resources(elf({".nv.info": info, ".nv.shared.kernel": bytes(96), ".nv.shared.reserved.0": bytes(64)}), "")
    assert (found["registers"], found["stack bytes"], found["static shared bytes"]) == (80, 16, 96)


def test_the_launch() -> None:
    found = resources(elf({".nv.info": b""}), HOST)
    assert found["dynamic shared bytes"] == 35936
    assert (found["programmatic launch"], found["cluster"]) == ("1", "7x1x1")
    ordinary = HOST.replace("llvm.store %3, %12", "llvm.store %99, %12")
    assert resources(elf({".nv.info": b""}), ordinary)["programmatic launch"] == "set at run time"


def test_what_is_not_there_is_not_made_up() -> None:
    found = resources(elf({".nv.info": b""}), "")
    assert (found["registers"], found["dynamic shared bytes"]) == (None, "not set")
    with pytest.raises(ValueError, match="no 64-bit ELF"):
        resources(b"text", "")
