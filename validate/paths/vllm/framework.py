"""What the default path's layers share: linear layers as vLLM chooses their kernels, and operators that it compiled.

Bare files have no compiled operators. An adapter then runs what vLLM itself falls back to without them, or its native form
of the operator, and notes it. All notes are of the GPU at hand; on a CPU every operator is torch's own.
"""

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from validate.paths.vllm.adapter import Prepared
from validate.paths.vllm.entries import LOW_LATENCY, module_of
from validate.paths.vllm.source import Source

PLANNED = 16  # rows up to which vLLM's tables name other kernels than cuBLAS's (low_latency_gemm.py ``_build_plan``)


def compiled(name: str) -> bool:
    """Whether vLLM's compiled operator is there: only an installed vLLM has any, and only for a GPU."""
    return torch.cuda.is_available() and hasattr(torch.ops._C, name)


@cache
def cute_available() -> bool:
    """Whether vLLM's small GEMMs in CuTe DSL can be compiled, which takes a file of quack's."""
    try:
        importlib.import_module("cutlass.cute")
        importlib.import_module("quack.compile_utils")
    except ImportError:
        return False
    return True


@cache
def flashinfer_gemm() -> bool:
    """Whether FlashInfer is there as a whole: files of it, or stand-ins for them, have no ``mm_bf16``."""
    try:
        return hasattr(importlib.import_module("flashinfer.gemm"), "mm_bf16")
    except ImportError:
        return False


def linear(source: Source, x: Tensor, weight: Tensor, rows: int | None = None) -> Tensor:
    """bf16 ``x @ weight.T`` of an unquantized layer, on a GPU by vLLM's kernels. x [m, k], weight [n, k].

    ``rows``: those of the layer's weight, of which ``weight`` is a part; vLLM chooses the kernel by them. By the layer's shape
    and m it takes a CuTe GEMM, its compiled ``dsv3_fused_a_gemm``, or torch's linear, hence cuBLAS (vLLM 0.33.0,
    models/kimi_k3/nvidia/low_latency_gemm.py; model_executor/layers/utils.py ``default_unquantized_gemm``). Without the
    compiled one vLLM's own choice falls back to torch's.
    """
    if x.device.type == "cpu":
        return in_fp32(torch.matmul, x, weight.T)
    product = None
    if cute_available():
        gemms: Any = source.module(module_of(LOW_LATENCY))
        if rows is None:
            product = gemms.try_low_latency_gemm(x, weight)
        else:
            spec = (gemms._low_latency_table() or {}).get((rows, weight.shape[1]))
            product = gemms._run_plan(gemms._build_plan(spec), x, weight) if spec else None
    return torch.nn.functional.linear(x, weight) if product is None else product


def in_fp32(multiply: Callable[[Tensor, Tensor], Tensor], x: Tensor, weight: Tensor) -> Tensor:
    """A bf16 product on a CPU as GPUs form it: fp32 sums, rounded once.

    torch's own in bf16 flushes subnormals where the CPU has bf16 instructions (Intel, AVX512_BF16 VDPBF16PS); GPUs keep them.
    """
    return multiply(x.float(), weight.float()).bfloat16()


def linear_note(rows: int) -> str | None:
    """What else vLLM may take for a linear layer of so many rows."""
    if not torch.cuda.is_available():
        return "linear layers by torch on a CPU, in fp32 up to their results"
    if rows > PLANNED:
        return None
    if not cute_available():
        return "linear layers by cuBLAS: vLLM's CuTe GEMMs take quack-kernels"
    return None if compiled("dsv3_fused_a_gemm") else "linear layers by vLLM's choice without its compiled GEMM"


def stored(out: Tensor, of: Callable[[], Tensor]) -> Prepared:
    """A launch that leaves what ``of`` returns in ``out``."""

    def launch() -> None:
        out.copy_(of())

    return Prepared(launch)


def notes(*said: str | None) -> str | None:
    """Several notes as one."""
    return "; ".join(one for one in said if one) or None
