"""What the default path's layers share: linear layers as vLLM chooses their kernels, and operators that it compiled.

Bare files have no compiled operators. An adapter then runs what vLLM itself falls back to without them, or its native form
of the operator, and notes it. All notes are of the GPU at hand; on a CPU every operator is torch's own.
"""

import importlib.util
from collections.abc import Callable
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


def cute_available() -> bool:
    """Whether vLLM's small GEMMs in CuTe DSL can be compiled, which takes a file of quack's."""
    return all(importlib.util.find_spec(name) for name in ("cutlass", "quack"))


def linear(source: Source, x: Tensor, weight: Tensor, rows: int | None = None) -> Tensor:
    """bf16 ``x @ weight.T`` of an unquantized layer. x [m, k], weight [n, k].

    ``rows``: those of the layer's weight, of which ``weight`` is a part; vLLM chooses the kernel by them. By the layer's shape
    and m it takes a CuTe GEMM, its compiled ``dsv3_fused_a_gemm``, or torch's linear, hence cuBLAS (vLLM 0.33.0,
    models/kimi_k3/nvidia/low_latency_gemm.py; model_executor/layers/utils.py ``default_unquantized_gemm``). Without the
    compiled one vLLM's own choice falls back to torch's.
    """
    product = None
    if x.is_cuda and cute_available():
        gemms: Any = source.module(module_of(LOW_LATENCY))
        if rows is None:
            product = gemms.try_low_latency_gemm(x, weight)
        else:
            spec = (gemms._low_latency_table() or {}).get((rows, weight.shape[1]))
            product = gemms._run_plan(gemms._build_plan(spec), x, weight) if spec else None
    return torch.nn.functional.linear(x, weight) if product is None else product


def linear_note(rows: int) -> str | None:
    """What else vLLM may take for a linear layer of so many rows."""
    if not torch.cuda.is_available():
        return "linear layers by torch on a CPU"
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
