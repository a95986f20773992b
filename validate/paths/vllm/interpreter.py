"""Triton's interpreter (``TRITON_INTERPRET=1``), mended where version 3.9 differs from a GPU.

Importing this module sets the variable, which counts only if nothing imported Triton before, and mends the interpreter
of this process. A handle holds bf16 as its bits, uint16. Wrong as shipped:

- fp32 to bf16 truncates; hardware rounds to nearest even. bf16 to fp32 turns subnormals into zero; hardware keeps them.
- ``tl.dot`` multiplies bf16 operands by their bits as integers; hardware multiplies values into an fp32 sum.
- A comparison's handle keeps the type of its operands. A scalar condition that is spread over a block then becomes a
  block of integers, which loads refuse as a mask.

And two that only cost time, half of it: it patches Triton's language anew for each call of a device function, and
checks integer arithmetic for overflow, which a GPU does in debug builds only.
"""

import os
import sys
from typing import Any

import numpy as np

from validate.errors import InputError

if "triton" in sys.modules and os.environ.get("TRITON_INTERPRET") != "1":
    raise InputError("Triton was imported to run on a GPU: vLLM's kernels on a CPU need a process of their own")
os.environ["TRITON_INTERPRET"] = "1"

try:
    import triton.language as tl
    from triton.runtime import interpreter as shipped
    from triton.runtime.interpreter import InterpretedFunction, InterpreterBuilder, TensorHandle
except ImportError as error:
    raise InputError("vLLM's kernels on a CPU need Triton: pip install 'k3-parity[interpreter]'") from error

SHIPPED_CAST = InterpreterBuilder.cast_impl
SHIPPED_DOT = InterpreterBuilder.create_dot
SHIPPED_BINARY = InterpreterBuilder.binary_op


def to_bf16(x: np.ndarray) -> np.ndarray:
    """Bits (uint16) of fp32 ``x`` rounded to bf16, to nearest, ties to even; every NaN becomes the quiet 0x7fc0."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = ((bits + np.uint32(0x7FFF) + odd) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded).reshape(x.shape)


def from_bf16(bits: np.ndarray) -> np.ndarray:
    """The fp32 values of bf16 ``bits`` (uint16); exact."""
    return (np.ascontiguousarray(bits).astype(np.uint32) << np.uint32(16)).view(np.float32).reshape(bits.shape)


def _cast(self: InterpreterBuilder, source: TensorHandle, target: Any) -> TensorHandle:
    types = source.dtype.scalar, target.scalar
    if types == (tl.float32, tl.bfloat16):
        return TensorHandle(to_bf16(source.data), tl.bfloat16)
    if types == (tl.bfloat16, tl.float32):
        return TensorHandle(from_bf16(source.data), tl.float32)
    return SHIPPED_CAST(self, source, target)


def _dot(self: InterpreterBuilder, a: TensorHandle, b: TensorHandle, *rest: Any) -> TensorHandle:
    return SHIPPED_DOT(self, _values(a), _values(b), *rest)


def _values(operand: TensorHandle) -> TensorHandle:
    bf16 = operand.dtype.scalar == tl.bfloat16
    return TensorHandle(from_bf16(operand.data), tl.float32) if bf16 else operand


def _binary(self: InterpreterBuilder, left: TensorHandle, right: TensorHandle, operation: Any) -> TensorHandle:
    found = SHIPPED_BINARY(self, left, right, operation)
    return TensorHandle(found.data, tl.int1) if found.data.dtype == np.bool_ else found


_patched: set[str] = set()


def _call(self: InterpretedFunction, *arguments: Any, **keywords: Any) -> Any:
    # A kernel's launch patches the language while it runs. What a device function adds, the module that it sees the
    # language by, stays patched after the first call.
    if self.fn.__module__ not in _patched:
        shipped._patch_lang(self.fn)
        _patched.add(self.fn.__module__)
    return self.rewrite()(*arguments, **keywords)


InterpretedFunction.__call__ = _call
shipped.interpreter_builder.options = shipped.InterpreterOptions(sanitize_overflow=False)
InterpreterBuilder.cast_impl = _cast
InterpreterBuilder.create_dot = _dot
InterpreterBuilder.binary_op = _binary
