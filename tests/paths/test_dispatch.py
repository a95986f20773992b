"""Which steps run specialized: by hand, and against vLLM's own ``plan()`` where its source is at hand."""

import ast
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from validate.model.decoding import Request
from validate.paths.dispatch import PREPARED, Deployment, captured_as, plan

DECODE = "vllm/models/kimi_k3/nvidia/specialized_decode/runtime/decode.py"


def decoding(count: int, q: int = 1) -> tuple[Request, ...]:
    return (Request(q),) * count


@pytest.mark.parametrize(
    ("requests", "deployment", "specialized", "rows", "reason"),
    [
        (decoding(1), Deployment(), True, 1, ""),
        (decoding(3), Deployment(), True, 4, ""),  # padded to a graph
        (decoding(64), Deployment(), True, 64, ""),
        (decoding(65), Deployment(), False, 65, "more rows than the largest graph"),
        (decoding(65), Deployment(captured=(64, 128)), False, 128, "no prepared kernels for this size"),
        ((*decoding(3), Request(5, prompt=True)), Deployment(), False, 8, "prompt rows"),
        ((Request(1, prompt=True),), Deployment(), False, 1, "prompt rows"),  # a prompt of one token
        (decoding(2, q=8), Deployment(q=8), True, 16, ""),
        (decoding(8, q=8), Deployment(q=8), True, 64, ""),
        ((Request(8), Request(3)), Deployment(q=8), False, 11, "partial drafts"),
        (decoding(4), Deployment(q=8), False, 4, "partial drafts"),  # nothing drafted
        (decoding(2, q=5), Deployment(q=5, captured=(1, 2, 4, 8)), True, 10, ""),  # 8 rounds up to 10
        (decoding(12), Deployment(captured=(1, 24)), True, 24, ""),  # captured beyond the fixed sizes
    ],
)
def test_plan(requests, deployment, specialized, rows, reason) -> None:
    found = plan(requests, deployment)
    assert (found.specialized, found.rows, found.reason) == (specialized, rows, reason)


@given(st.integers(1, 8), st.lists(st.integers(1, 128), min_size=1, max_size=12))
def test_a_specialized_step_has_prepared_kernels_and_whole_requests(q: int, captured: list[int]) -> None:
    deployment = Deployment(q, tuple(captured))
    for rows in deployment.graphs:
        found = captured_as(rows, deployment)
        assert not found.specialized or (rows <= PREPARED[-1] and rows % q == 0)


def vllm_plan() -> Any:
    """vLLM's ``plan`` and what it calls, compiled from its source with stand-ins for what a CPU lacks."""
    root = os.environ.get("K3_PARITY_VLLM_SRC")
    if not root or not (Path(root) / DECODE).is_file():
        pytest.skip("vLLM's source is not at hand: set K3_PARITY_VLLM_SRC to an unpacked wheel")
    tree = ast.parse((Path(root) / DECODE).read_text())
    wanted = {"layer_name", "decode_metadata", "is_uniform_verify", "plan"}
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name in wanted]
    assert {f.name for f in functions} == wanted

    class Step(NamedTuple):
        q: int
        metadata: list
        slot_mapping: Any

    namespace: dict[str, Any] = {
        "Any": Any,
        "Step": Step,
        "torch": SimpleNamespace(cuda=SimpleNamespace(is_current_stream_capturing=lambda: True), Tensor=torch.Tensor),
        "is_forward_context_available": lambda: True,
        "CUDAGraphMode": SimpleNamespace(PIECEWISE="PIECEWISE"),
    }
    exec(compile(ast.Module(functions, []), DECODE, "exec"), namespace)
    return namespace


@pytest.mark.parametrize("q", [1, 2, 4, 5, 8])
def test_captured_as_agrees_with_vllm(q: int) -> None:
    namespace = vllm_plan()
    deployment = Deployment(q)
    for rows in range(1, 130):
        kda = SimpleNamespace(
            num_prefills=0,
            num_decodes=0 if q > 1 else rows,
            num_spec_decodes=max(1, rows // q) if q > 1 else 0,
            spec_state_indices_tensor=torch.zeros(rows // q, q) if q > 1 else None,
            num_spec_decode_tokens=rows // q * q,
        )
        mla = SimpleNamespace(num_prefills=0, num_decodes=rows // q, num_decode_tokens=rows // q * q)
        layers = [SimpleNamespace(self_attn=SimpleNamespace(prefix=name)) for name in ("kda", "mla")]
        context = SimpleNamespace(attn_metadata={"kda": kda, "mla": mla}, cudagraph_runtime_mode="FULL", slot_mapping=None)
        namespace["get_forward_context"] = lambda context=context: context
        executor = SimpleNamespace(batches=tuple(sorted(deployment.prepared)), q=q, layers=layers)
        theirs = namespace["plan"](executor, torch.zeros(rows), None)
        assert (theirs is not None) == captured_as(rows, deployment).specialized, rows
