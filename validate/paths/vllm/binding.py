"""What binding a CuTe DSL kernel takes: vLLM's host helpers, the DSL, its compiler. Imported when a kernel is bound."""

import importlib
from typing import Any

from validate.paths.vllm.entries import HOST, module_of
from validate.paths.vllm.source import Source


def host(source: Source) -> Any:
    """The module of vLLM's helpers: views of tensors, their layouts, the current stream."""
    return source.module(module_of(HOST))


def cutlass() -> Any:
    """The DSL's package, for its scalars."""
    return importlib.import_module("cutlass")


def compiled(kernel: Any, *operands: Any) -> Any:
    """``kernel`` compiled for operands like these, and a stream after them."""
    stream = importlib.import_module("cutlass.cute.runtime").make_fake_stream()
    return importlib.import_module("cutlass.cute").compile(kernel, *operands, stream)
